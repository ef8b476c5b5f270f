"""The Ray engine, with Ray on this machine."""

import os

import pytest
from outputs import make_lines, read_errors, read_manifest, read_rows, shard_paths, write_jsonl, write_lines

from spacy_bilstm_crf.annotate import Job, annotate, annotate_batch

pytest.importorskip("ray.data")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """A Ray that the tests share: starting it takes longer than what they do with it."""
    import ray

    # On a busy machine its agents take their time.
    os.environ.setdefault("RAY_agent_register_timeout_ms", "200000")
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, logging_level="warning")
    yield
    ray.shutdown()


def test_it_writes_what_the_local_engine_does(tmp_path, annotate_inline, make_job, model, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "a.txt", make_lines(50))
    write_jsonl(tmp_path / "b.jsonl", [{"text": line, "n": i} for i, line in enumerate(make_lines(9))] + ["bad"])
    annotate_inline(make_job(shard_size=7), ["a.txt", "b.jsonl"])
    summary = annotate(Job(model, "ray", shard_size=7), ["a.txt", "b.jsonl"], engine="ray", n_process=2)
    assert (summary.n_docs, summary.n_failures, summary.n_shards) == (59, 1, 10)
    for local, ray in zip(shard_paths(tmp_path / "out"), shard_paths(tmp_path / "ray"), strict=True):
        assert local.name == ray.name
        assert local.read_bytes() == ray.read_bytes()
    assert read_errors(tmp_path / "ray") == read_errors(tmp_path / "out")
    assert read_manifest(tmp_path / "ray")["runs"][0]["engine"] == "ray"


def test_it_goes_on_where_another_engine_stopped(tmp_path, annotate_inline, make_job):
    path = write_lines(tmp_path / "a.txt", make_lines(20))
    annotate_inline(make_job(shard_size=5), [path])
    expected = read_rows(tmp_path / "out")
    times = {shard.name: shard.stat().st_mtime_ns for shard in shard_paths(tmp_path / "out")}
    for name in ("part-00000-00001", "part-00000-00003"):
        (tmp_path / "out" / "shards" / f"{name}.jsonl").unlink()
        del times[f"{name}.jsonl"]
    summary = annotate(make_job(shard_size=5), [path], engine="ray")
    assert (summary.n_docs, summary.n_kept, summary.n_new_docs) == (20, 2, 10)
    after = {shard.name: shard.stat().st_mtime_ns for shard in shard_paths(tmp_path / "out")}
    assert after == {**after, **times}
    assert read_rows(tmp_path / "out") == expected
    assert annotate(make_job(shard_size=5), [path], engine="ray").n_kept == 4


def test_urls(tmp_path, model):
    lines = make_lines(6)
    write_lines(tmp_path / "a.txt", lines)
    summary = annotate(Job(model, (tmp_path / "out").as_uri(), "parquet"), [f"{tmp_path.as_uri()}/*.txt"], engine="ray")
    assert summary.n_docs == 6
    assert [row["text"] for row in read_rows(tmp_path / "out")] == lines
    assert read_rows(tmp_path / "out")[0]["id"] == f"{(tmp_path / 'a.txt').as_uri()}:1"


def test_an_actor_that_cannot_begin(tmp_path, make_job):
    path = write_lines(tmp_path / "a.txt", make_lines(2))
    code = tmp_path / "code.py"
    code.write_text("raise ValueError('this code does not run')\n")
    with pytest.raises(ValueError, match=r"CRF439.*CRF432.*this code does not run"):
        annotate(make_job(code=str(code)), [path], engine="ray")
    assert read_manifest(tmp_path / "out")["status"] == "stopped"


def test_a_document_that_kills_its_actor_does_not_go_on_for_ever(tmp_path, make_job):
    path = write_lines(tmp_path / "a.txt", ["fine", "deadly"])
    code = tmp_path / "code.py"
    code.write_text(
        "import os\n"
        "from spacy_bilstm_crf.annotate import shards\n"
        "annotate_records = shards.annotate_records\n"
        "def die(nlp, records):\n"
        "    return os._exit(7) if records[0].text == 'deadly' else annotate_records(nlp, records)\n"
        "shards.annotate_records = die\n"
    )
    with pytest.raises(ValueError, match=r"CRF439.*CRF443.*3 processes"):
        annotate(make_job(code=str(code), shard_size=1), [path], engine="ray")
    assert read_manifest(tmp_path / "out")["status"] == "stopped"


def test_a_cluster_that_cannot_be_reached(tmp_path, make_job, monkeypatch):
    import ray

    def init(**settings):
        raise ConnectionError(f"there is nothing at {settings['address']}")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    path = write_lines(tmp_path / "a.txt", make_lines(2))
    with pytest.raises(ValueError, match=r"CRF439.*nothing at 192.0.2.1:6379"):
        annotate(make_job(), [path], engine="ray", ray_address="192.0.2.1:6379")


def test_annotate_batch_in_a_job_of_ones_own(model, loaded):
    import ray.data

    class Annotate:
        def __init__(self, path):
            import spacy

            self.nlp = spacy.load(path)

        def __call__(self, batch):
            return annotate_batch(self.nlp, batch)

    lines = make_lines(30)
    rows = (
        ray.data.from_items([{"n": i, "text": line} for i, line in enumerate(lines)])
        .map_batches(
            Annotate,
            fn_constructor_args=[model],
            batch_format="pyarrow",
            batch_size=10,
            compute=ray.data.ActorPoolStrategy(size=1),
        )
        .sort("n")
        .take_all()
    )
    for row, doc in zip(rows, loaded.pipe(lines), strict=True):
        assert [(ent["start"], ent["end"], ent["label"]) for ent in row["entities"]] == [
            (ent.start_char, ent.end_char, ent.label_) for ent in doc.ents
        ]
        assert all(
            abs(ent["probability"] - expected._.prob) < 1e-5
            for ent, expected in zip(row["entities"], doc.ents, strict=True)
        )
