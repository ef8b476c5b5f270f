"""Runs from beginning to end, with the work done in this process."""

import json
import os
import sys
from pathlib import Path

import pytest
import spacy
from outputs import make_lines, read_errors, read_manifest, read_rows, shard_paths, write_jsonl, write_lines

from spacy_bilstm_crf.annotate import Job, annotate, shards
from spacy_bilstm_crf.annotate.local_folder import LocalFolder
from spacy_bilstm_crf.annotate.manifest import Manifest
from spacy_bilstm_crf.annotate.receipts import count_attempt
from spacy_bilstm_crf.annotate.shards import Annotator


class Killed(BaseException):
    """Ends a run without a chance to tidy up."""


def die(*args):
    raise Killed


@pytest.fixture
def kill_at(monkeypatch):
    """End the run at the n-th shard, before or after the shard has its name."""

    def kill(n, when):
        seen = []
        annotate_slice = Annotator.annotate

        def annotate_and_die(self, part, **kwargs):
            seen.append(part.name)
            if len(seen) == n and when == "before its name":

                def write_receipt(folder, receipt):
                    receipts_write(folder, receipt)
                    raise Killed

                receipts_write = shards.write_receipt
                monkeypatch.setattr(shards, "write_receipt", write_receipt)
            receipt = annotate_slice(self, part, **kwargs)
            if len(seen) == n and when == "after its name":
                raise Killed
            return receipt

        monkeypatch.setattr(Annotator, "annotate", annotate_and_die)

    return kill


def count_slices(monkeypatch):
    seen = []
    annotate_slice = Annotator.annotate

    def count(self, part, **kwargs):
        seen.append(part.name)
        return annotate_slice(self, part, **kwargs)

    monkeypatch.setattr(Annotator, "annotate", count)
    return seen


def test_several_files_in_order(tmp_path, annotate_inline, make_job):
    paths = [write_lines(tmp_path / f"{name}.txt", make_lines(5, seed=i)) for i, name in enumerate("bac")]
    (tmp_path / "empty.txt").touch()
    summary = annotate_inline(make_job(shard_size=2), [paths[0], str(tmp_path / "empty.txt"), *paths[1:]])
    rows = read_rows(tmp_path / "out")
    assert [row["id"] for row in rows] == [f"{path}:{i}" for path in paths for i in range(1, 6)]
    assert (summary.n_docs, summary.n_shards, summary.n_failures, summary.n_kept) == (15, 9, 0, 0)
    assert read_errors(tmp_path / "out") == []
    assert [path.name for path in shard_paths(tmp_path / "out")][3:5] == [
        "part-00002-00000.jsonl",
        "part-00002-00001.jsonl",
    ]


@pytest.mark.parametrize("when", ["before its name", "after its name"])
def test_a_killed_run_goes_on_where_it_stopped(tmp_path, annotate_inline, make_job, kill_at, monkeypatch, when):
    lines = [*make_lines(7), *['{"text": 1}'] * 2, *make_lines(1)]
    values = [line if line.startswith("{") else {"text": line} for line in lines]
    path = write_jsonl(tmp_path / "a.jsonl", values)
    with monkeypatch.context():
        kill_at(3, when)
        with pytest.raises(Killed):
            annotate_inline(make_job(shard_size=2), [path])
        monkeypatch.undo()
    n_before = 2 if when == "before its name" else 3
    before = {shard.name: shard.stat().st_mtime_ns for shard in shard_paths(tmp_path / "out")}
    assert len(before) == n_before
    assert read_manifest(tmp_path / "out")["status"] == "stopped"
    seen = count_slices(monkeypatch)
    summary = annotate_inline(make_job(shard_size=2), [path])
    assert seen == [f"part-00000-0000{i}" for i in range(n_before, 5)]
    assert (summary.n_docs, summary.n_failures, summary.n_shards, summary.n_kept) == (8, 2, 5, n_before)
    assert summary.n_new_docs == 8 - 2 * n_before
    assert [row["id"] for row in read_rows(tmp_path / "out")] == [f"{path}:{i}" for i in (1, 2, 3, 4, 5, 6, 7, 10)]
    assert [error["place"] for error in read_errors(tmp_path / "out")] == [f"{path}:8", f"{path}:9"]
    after = {shard.name: shard.stat().st_mtime_ns for shard in shard_paths(tmp_path / "out")}
    assert after == {**after, **before}, "finished shards are not written again"
    manifest = read_manifest(tmp_path / "out")
    assert manifest["status"] == "complete"
    assert [run["n_docs"] for run in manifest["runs"]] == [2 * 2, 8 - 2 * n_before]
    annotate_inline(make_job(shard_size=2), [path])
    assert len(seen) == 5 - n_before, "a complete run has nothing left to do"


def test_what_a_killed_process_left_is_removed(tmp_path, annotate_inline, make_job):
    path = write_lines(tmp_path / "a.txt", make_lines(3))
    (tmp_path / "out" / "shards").mkdir(parents=True)
    (tmp_path / "out" / "shards" / ".part-00000-00000.jsonl.0123.tmp").write_text("half")
    annotate_inline(make_job(), [path])
    assert [shard.name for shard in (tmp_path / "out" / "shards").iterdir()] == ["part-00000-00000.jsonl"]


def test_a_receipt_without_shard_and_a_shard_without_receipt_do_not_count(tmp_path, annotate_inline, make_job):
    path = write_lines(tmp_path / "a.txt", make_lines(4))
    annotate_inline(make_job(shard_size=2), [path])
    expected = read_rows(tmp_path / "out")
    (tmp_path / "out" / "shards" / "part-00000-00000.jsonl").unlink()
    (tmp_path / "out" / "_receipts" / "part-00000-00001.json").unlink()
    summary = annotate_inline(make_job(shard_size=2), [path])
    assert summary.n_kept == 0
    assert read_rows(tmp_path / "out") == expected


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"shard_size": 3}, "shard_size was 2 and is 3"),
        ({"text_field": "body"}, "text_field was text and is body"),
        ({"probabilities": False}, "probabilities was True and is False"),
        ({"output_format": "spacy"}, "output_format was jsonl and is spacy"),
        ({"exclude": ("tagger",)}, "exclude was"),
    ],
)
def test_other_options_are_refused(tmp_path, annotate_inline, make_job, options, says):
    path = write_lines(tmp_path / "a.txt", make_lines(4))
    annotate_inline(make_job(shard_size=2), [path])
    manifest = read_manifest(tmp_path / "out")
    with pytest.raises(ValueError, match="CRF423") as caught:
        annotate_inline(make_job(**{"shard_size": 2, **options}), [path])
    assert says in str(caught.value)
    assert read_manifest(tmp_path / "out") == manifest


def test_other_input_is_refused(tmp_path, annotate_inline, make_job):
    path, other = (write_lines(tmp_path / name, make_lines(2)) for name in ("a.txt", "b.txt"))
    annotate_inline(make_job(), [path])
    with pytest.raises(ValueError, match=r"CRF423.*b\.txt"):
        annotate_inline(make_job(), [path, other])
    write_lines(tmp_path / "a.txt", make_lines(3))
    with pytest.raises(ValueError, match=r"CRF423.*a\.txt"):
        annotate_inline(make_job(), [path])


def test_another_model_is_refused_even_by_the_same_name(tmp_path, annotate_inline, make_job, loaded):
    path = write_lines(tmp_path / "a.txt", make_lines(2))
    loaded.to_disk(tmp_path / "model")
    job = make_job()
    job = Job(str(tmp_path / "model"), job.output)
    annotate_inline(job, [path])
    config = tmp_path / "model" / "ner_crf" / "cfg"
    config.write_text(config.read_text().replace('"threshold":0.0', '"threshold":0.5'))
    with pytest.raises(ValueError, match=r"CRF423.*the model was en_tiny 1\.2\.3"):
        annotate_inline(job, [path])


def test_another_run_is_thrown_away_on_request_and_nothing_else(tmp_path, annotate_inline, make_job):
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": "a"}] * 5 + ["bad"])
    annotate_inline(make_job(shard_size=2), [path])
    (tmp_path / "out" / "mine.txt").write_text("mine")
    (tmp_path / "out" / "shards" / "mine.jsonl").write_text("mine")
    annotate_inline(make_job(shard_size=100), [path], force=True)
    names = sorted(str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*") if p.is_file())
    assert names == [
        ".lock",
        "_receipts/part-00000-00000.json",
        "errors.jsonl",
        "manifest.json",
        "mine.txt",
        "shards/mine.jsonl",
        "shards/part-00000-00000.jsonl",
    ]
    assert len(read_manifest(tmp_path / "out")["runs"]) == 1


@pytest.mark.parametrize("content", [None, b"{"])
def test_shards_without_a_manifest_are_refused(tmp_path, annotate_inline, make_job, content):
    path = write_lines(tmp_path / "a.txt", make_lines(2))
    annotate_inline(make_job(), [path])
    manifest = tmp_path / "out" / "manifest.json"
    manifest.unlink() if content is None else manifest.write_bytes(content)
    with pytest.raises(ValueError, match="CRF424"):
        annotate_inline(make_job(), [path])
    assert annotate_inline(make_job(), [path], force=True).n_docs == 2


def test_errors_can_be_tried_again(tmp_path, annotate_inline, make_job, monkeypatch):
    path = write_lines(tmp_path / "a.txt", ["a", "b", "BAD", "c"])
    nlp = spacy.blank("en")
    nlp.add_pipe("test_fails_on_bad")
    summary = annotate_inline(make_job(shard_size=2), [path], nlp=nlp)
    assert (summary.n_docs, summary.n_failures) == (3, 1)
    (error,) = read_errors(tmp_path / "out")
    assert error == {"id": f"{path}:3", "place": f"{path}:3", "reason": "RuntimeError: this document is bad"}
    nlp.remove_pipe("test_fails_on_bad")
    assert annotate_inline(make_job(shard_size=2), [path], nlp=nlp).n_failures == 1
    seen = count_slices(monkeypatch)
    summary = annotate_inline(make_job(shard_size=2), [path], nlp=nlp, retry_errors=True)
    assert (summary.n_docs, summary.n_failures, summary.n_kept, summary.n_new_docs) == (4, 0, 1, 2)
    assert seen == ["part-00000-00001"]
    assert read_errors(tmp_path / "out") == []


def test_input_that_was_repaired_is_done_again(tmp_path, annotate_inline, make_job, monkeypatch):
    good = write_lines(tmp_path / "a.txt", ["a", "b"])
    path = write_jsonl(tmp_path / "b.jsonl", [{"text": "a"}, {"text": "b"}, "{bad"])
    job = make_job(shard_size=1)
    assert annotate_inline(job, [good, path]).n_failures == 1
    write_jsonl(tmp_path / "b.jsonl", [{"text": "longer"}, {"text": "than before"}])
    with pytest.raises(ValueError, match=r"CRF423.*b\.jsonl.*--retry-errors"):
        annotate_inline(job, [good, path])
    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "write", die)
        with pytest.raises(Killed):
            annotate_inline(job, [good, path], retry_errors=True)
    seen = count_slices(monkeypatch)
    summary = annotate_inline(job, [good, path], retry_errors=True)
    assert (summary.n_docs, summary.n_failures, summary.n_shards, summary.n_kept) == (4, 0, 4, 2)
    assert seen == ["part-00001-00000", "part-00001-00001"]
    assert [row["text"] for row in read_rows(tmp_path / "out")] == ["a", "b", "longer", "than before"]
    assert read_manifest(tmp_path / "out")["inputs"][1]["n_bytes"] == (tmp_path / "b.jsonl").stat().st_size
    assert annotate_inline(job, [good, path]).n_new_docs == 0


def test_what_a_dead_process_leaves_behind_is_taken_for_no_receipt(tmp_path, annotate_inline, make_job):
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": "a"}, {"text": "b"}, "{bad"])
    job = make_job(shard_size=1)
    assert annotate_inline(job, [path]).n_failures == 1
    assert count_attempt(LocalFolder(tmp_path / "out"), "part-00000-00003") == 1
    assert count_attempt(LocalFolder(tmp_path / "out"), "part-00000-00003") == 2
    write_jsonl(tmp_path / "a.jsonl", [{"text": "longer"}, {"text": "than before"}])
    summary = annotate_inline(job, [path], retry_errors=True)
    assert (summary.n_docs, summary.n_failures) == (2, 0)


def test_input_that_has_changed_without_need_is_refused_all_the_same(tmp_path, annotate_inline, make_job):
    good = write_lines(tmp_path / "a.txt", ["a", "b"])
    path = write_jsonl(tmp_path / "b.jsonl", ["{bad"])
    annotate_inline(make_job(), [good, path])
    write_lines(tmp_path / "a.txt", ["a", "b", "c"])
    for paths in ([good, path], [good]):
        with pytest.raises(ValueError, match="CRF423"):
            annotate_inline(make_job(), paths, retry_errors=True)


def test_all_rows_that_cannot_be_read_are_counted(tmp_path, annotate_inline, make_job):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table({"body": ["a", "b", "c"]}), tmp_path / "a.parquet")
    summary = annotate_inline(make_job(shard_size=2), [str(tmp_path / "a.parquet")])
    assert (summary.n_docs, summary.n_failures) == (0, 3)
    first, second = read_errors(tmp_path / "out")
    assert first["n_docs"] == 2
    assert "n_docs" not in second
    assert annotate_inline(make_job(shard_size=2), [str(tmp_path / "a.parquet")]).n_failures == 3


@pytest.mark.parametrize("content", ["{", "[]", "null", '{"model": 1}', '{"name": "of another program"}'])
def test_a_manifest_of_something_else_is_kept(tmp_path, annotate_inline, make_job, content):
    path = write_lines(tmp_path / "a.txt", make_lines(2))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "manifest.json").write_text(content)
    with pytest.raises(ValueError, match="CRF424"):
        annotate_inline(make_job(), [path])
    assert (tmp_path / "out" / "manifest.json").read_text() == content


def test_code_that_is_not_there(tmp_path, annotate_inline, make_job):
    path = write_lines(tmp_path / "a.txt", make_lines(2))
    with pytest.raises(ValueError, match=r"CRF442.*missing\.py"):
        annotate_inline(make_job(code="missing.py"), [path])


def test_files_that_cannot_be_read_do_not_stop_the_others(tmp_path, annotate_inline, make_job):
    (tmp_path / "a.spacy").write_bytes(b"nothing of this kind")
    good = write_lines(tmp_path / "b.txt", make_lines(3))
    paths = [str(tmp_path / "a.spacy"), good]
    if os.geteuid():  # root may read everything
        (tmp_path / "c.txt").write_text("x")
        (tmp_path / "c.txt").chmod(0)
        paths.append(str(tmp_path / "c.txt"))
    summary = annotate_inline(make_job(), paths)
    assert (summary.n_docs, summary.n_failures) == (3, len(paths) - 1)
    assert {error["id"] for error in read_errors(tmp_path / "out")} == {path for path in paths if path != good}
    assert all("CRF431" in error["reason"] for error in read_errors(tmp_path / "out"))


def test_lines_of_50_megabytes(tmp_path, annotate_inline, make_job):
    long = "word " * 10_000_000
    path = write_lines(tmp_path / "a.txt", ["before", long, "after", long[:2_000_000]])
    other = write_jsonl(tmp_path / "b.jsonl", [{"text": long}, {"text": "last"}])
    summary = annotate_inline(make_job(), [path, other])
    assert [row["text"] for row in read_rows(tmp_path / "out")] == ["before", "after", "last"]
    assert [error["id"] for error in read_errors(tmp_path / "out")] == [f"{path}:2", f"{path}:4", f"{other}:1"]
    for error, says in zip(read_errors(tmp_path / "out"), ["CRF430", "E088", "CRF430"], strict=True):
        assert says in error["reason"]
    assert summary.n_failures == 3


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
@pytest.mark.parametrize("output_format", ["jsonl", "parquet", "spacy"])
def test_a_file_whose_name_is_not_utf8(tmp_path, annotate_inline, make_job, output_format):
    if output_format == "parquet":
        pytest.importorskip("pyarrow")
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")
    with open(path, "w") as file:
        file.write("Bob\n")
    assert annotate_inline(make_job(output_format=output_format), [path]).n_docs == 1
    assert annotate_inline(make_job(output_format=output_format), [path]).n_kept == 1


def test_a_model_that_is_installed(tmp_path, monkeypatch, annotate_inline, make_job, model):
    monkeypatch.setattr(spacy.util, "is_package", lambda name: name == "en_tiny")
    monkeypatch.setattr(spacy.util, "get_package_path", lambda name: Path(model))
    path = write_lines(tmp_path / "a.txt", make_lines(2))
    annotate_inline(Job("en_tiny", str(tmp_path / "out")), [path])
    by_name = read_manifest(tmp_path / "out")["model"]
    annotate_inline(make_job(), [path])  # the same by path
    assert read_manifest(tmp_path / "out")["model"] == {**by_name, "path": model}


def test_a_blank_model(tmp_path, annotate_inline):
    path = write_lines(tmp_path / "a.txt", make_lines(2))
    annotate_inline(Job("blank:en", str(tmp_path / "out")), [path], nlp=spacy.blank("en"))
    assert read_manifest(tmp_path / "out")["model"]["name"] == "blank:en"
    with pytest.raises(ValueError, match="CRF423"):
        annotate_inline(Job("blank:de", str(tmp_path / "out")), [path], nlp=spacy.blank("de"))


def test_the_manifest(tmp_path, annotate_inline, make_job, model):
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": "Bob left Paris"}, "bad"])
    summary = annotate_inline(make_job(id_field=None, shard_size=7), [path], engine="local", n_process=2)
    manifest = read_manifest(tmp_path / "out")
    assert {name: manifest["model"][name] for name in ("path", "name", "version")} == {
        "path": model,
        "name": "en_tiny",
        "version": "1.2.3",
    }
    assert len(manifest["model"]["sha256"]) == 64
    assert manifest["options"]["shard_size"] == 7
    (source,) = manifest["inputs"]
    assert (source["path"], source["n_bytes"]) == (path, os.path.getsize(path))
    assert (source["n_docs"], source["n_failures"]) == (1, 1)
    assert manifest["counts"] == {"n_docs": 1, "n_tokens": 3, "n_entities": summary.n_entities, "n_failures": 1}
    (run,) = manifest["runs"]
    assert (run["engine"], run["n_process"], run["n_docs"]) == ("local", 2, 1)
    assert run["versions"]["spacy"] == spacy.__version__
    assert manifest["seconds"] >= run["seconds"] > 0


def test_code_is_part_of_what_must_be_the_same(tmp_path, annotate_inline, make_job):
    path = write_lines(tmp_path / "a.txt", make_lines(2))
    code = tmp_path / "code.py"
    code.write_text("x = 1\n")
    annotate_inline(make_job(code=str(code)), [path])
    annotate_inline(make_job(code=str(code)), [path])
    code.write_text("x = 2\n")
    with pytest.raises(ValueError, match=r"CRF423.*code was"):
        annotate_inline(make_job(code=str(code)), [path])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"engine": "spark"}, "--engine is spark. Expected one of local, ray"),
        ({"n_process": 0}, "--n-process"),
        ({"n_process": 2, "gpu_id": 0}, "--gpu-id"),
        ({"ray_address": "auto"}, "--ray-address"),
    ],
)
def test_options_that_make_no_sense(tmp_path, make_job, options, says):
    with pytest.raises(ValueError, match="CRF435") as caught:
        annotate(make_job(), ["x.txt"], **options)
    assert says in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("options", [{"output_format": "csv"}, {"shard_size": 0}, {"shard_bytes": 0}])
def test_jobs_that_make_no_sense(make_job, options):
    with pytest.raises(ValueError, match="CRF435"):
        make_job(**options)


@pytest.mark.parametrize("model", ["no_such_package", "/no/such/path"])
def test_a_model_that_is_not_there(tmp_path, model):
    path = write_lines(tmp_path / "a.txt", make_lines(2))
    job = Job(model, str(tmp_path / "out"))
    with pytest.raises(ValueError, match="CRF432"):
        annotate(job, [path])


@pytest.mark.skipif(sys.platform != "linux", reason="root may write everywhere but there")
def test_an_output_that_cannot_be_written(tmp_path, model):
    path = write_lines(tmp_path / "a.txt", make_lines(2))
    with pytest.raises(ValueError, match=r"CRF422.*/proc/out"):
        annotate(Job(model, "/proc/out"), [path])


def test_results_do_not_depend_on_the_size_of_shards(tmp_path, annotate_inline, make_job):
    lines = make_lines(40)
    path = write_lines(tmp_path / "a.txt", lines)
    results = []
    for size in (3, 40):
        annotate_inline(make_job(shard_size=size), [path], force=True)
        rows = read_rows(tmp_path / "out")
        results.append([{**row, "entities": [{**ent, "probability": 0} for ent in row["entities"]]} for row in rows])
    assert results[0] == results[1]


def test_a_job_survives_json(make_job):
    job = make_job(exclude=("a", "b"), id_field="x")
    assert Job.from_dict(json.loads(json.dumps(job.to_dict()))) == job
