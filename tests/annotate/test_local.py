"""The local engine with its processes."""

import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import spacy
from outputs import (
    assert_same_entities,
    make_lines,
    read_docs,
    read_errors,
    read_manifest,
    read_rows,
    shard_paths,
    write_jsonl,
    write_lines,
)

from spacy_bilstm_crf.annotate import Job, annotate, local

CODE = """
import os, signal, time
from spacy.language import Language

@Language.component("test_slow")
def slow(doc):
    print("what components print is not for the parent")
    time.sleep(0.005)
    return doc

@Language.component("test_deadly")
def deadly(doc):
    if "DEADLY" in doc.text:
        os.kill(os.getpid(), signal.SIGKILL)
    return doc
"""


@pytest.fixture(scope="module")
def code(tmp_path_factory):
    path = tmp_path_factory.mktemp("code") / "components.py"
    path.write_text(CODE)
    return str(path)


@pytest.fixture(scope="module")
def make_model(tmp_path_factory, code):
    """Save a pipeline with components of the code above."""
    spacy.util.import_file("test_components", code)

    def make(*names):
        nlp = spacy.blank("en")
        nlp.add_pipe("entity_ruler").add_patterns([{"label": "PER", "pattern": "Bob"}])
        for name in names:
            nlp.add_pipe(name)
        path = tmp_path_factory.mktemp("model") / "_".join(names)
        nlp.to_disk(path)
        return str(path)

    return make


def start(tmp_path, *args, **settings):
    """Start the command in a process of its own."""
    command = [sys.executable, "-m", "spacy", "crf", "annotate", *map(str, args)]
    with (tmp_path / "log.txt").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, **settings)


def find_children(pid):
    """The processes that a process has started, as Linux lists them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == pid and state != "Z":
            found.append(int(path.parent.name))
    return found


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_two_workers_write_what_one_process_does(tmp_path, annotate_inline, make_job, model):
    lines = make_lines(60)
    path = write_lines(tmp_path / "a.txt", lines)
    annotate_inline(make_job(shard_size=7), [path])
    summary = annotate(Job(model, str(tmp_path / "two"), shard_size=7), [path], n_process=2)
    assert summary.n_docs == 60
    for one, two in zip(shard_paths(tmp_path / "out"), shard_paths(tmp_path / "two"), strict=True):
        assert one.name == two.name
        assert one.read_bytes() == two.read_bytes()


def test_a_document_that_kills_its_worker(tmp_path, make_model, code):
    path = write_lines(tmp_path / "a.txt", ["one", "Bob two", "DEADLY", "four", "five", "six"])
    job = Job(make_model("test_deadly"), str(tmp_path / "out"), shard_size=4, code=code)
    summary = annotate(job, [path])
    assert (summary.n_docs, summary.n_failures) == (5, 1)
    assert [row["text"] for row in read_rows(tmp_path / "out")] == ["one", "Bob two", "four", "five", "six"]
    (error,) = read_errors(tmp_path / "out")
    assert error["id"] == f"{path}:3"
    assert "CRF433" in error["reason"]
    assert "signal 9" in error["reason"]
    assert len(list((tmp_path / "out" / "shards").iterdir())) == 2, "nothing is left of what the dead have begun"


def test_a_run_gives_up_if_workers_keep_dying(tmp_path, make_model, code, monkeypatch):
    monkeypatch.setattr(local, "_MAX_DEADLY_DOCS", 0)
    path = write_lines(tmp_path / "a.txt", ["one", "two", "DEADLY", "four"])
    with pytest.raises(ValueError, match="CRF440"):
        annotate(Job(make_model("test_deadly"), str(tmp_path / "out"), shard_size=2, code=code), [path])
    assert [row["text"] for row in read_rows(tmp_path / "out")] == ["one", "two"]
    assert read_manifest(tmp_path / "out")["status"] == "stopped"


def test_a_pipeline_that_cannot_be_loaded(tmp_path, make_model):
    path = write_lines(tmp_path / "a.txt", ["one"])
    with pytest.raises(ValueError, match=r"CRF432.*test_slow"):
        annotate(Job(make_model("test_slow"), str(tmp_path / "out")), [path])


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes as Linux lists them")
def test_workers_end_with_their_parent(tmp_path, make_model, code):
    path = write_lines(tmp_path / "a.txt", make_lines(2000))
    options = ["--shard-size", 10, "-n", 2, "--code", code]
    args = [make_model("test_slow"), path, tmp_path / "out", *options]
    process = start(tmp_path, *args)
    assert wait_until(lambda: (tmp_path / "out" / "shards").is_dir() and shard_paths(tmp_path / "out"))
    workers = find_children(process.pid)
    assert len(workers) == 2
    process.kill()
    process.wait()
    assert wait_until(lambda: not any(map(is_running, workers)), 10)
    assert 0 < len(shard_paths(tmp_path / "out")) < 200
    assert read_manifest(tmp_path / "out")["status"] == "running"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="finds processes as Linux lists them")
def test_an_interrupted_run_says_how_to_go_on(tmp_path, make_model, code):
    path = write_lines(tmp_path / "a.txt", make_lines(2000))
    args = [make_model("test_slow"), path, tmp_path / "out", "--shard-size", 10, "--code", code]
    # A shell that runs the tests in the background lets them ignore the signal, which children inherit.
    process = start(tmp_path, *args, preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL))
    assert wait_until(lambda: (tmp_path / "out" / "shards").is_dir() and shard_paths(tmp_path / "out"))
    workers = find_children(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait() == 130
    assert wait_until(lambda: not any(map(is_running, workers)), 10)
    assert read_manifest(tmp_path / "out")["status"] == "stopped"
    log = (tmp_path / "log.txt").read_text()
    assert "Interrupted" in log
    assert "Traceback" not in log


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="limits are of POSIX")
@pytest.mark.parametrize("output_format", ["jsonl", "parquet", "spacy"])
def test_a_full_disk(tmp_path, model, output_format):
    import resource

    if output_format == "parquet":
        pytest.importorskip("pyarrow")

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

    values = [{"text": text} for text in make_lines(20)] + [
        {"text": "Bob", "x": random.Random(0).randbytes(60_000).hex()}
    ]
    path = write_jsonl(tmp_path / "a.jsonl", values)
    args = [model, path, tmp_path / "out", "--shard-size", 10, "--format", output_format]
    assert start(tmp_path, *args, preexec_fn=limit).wait() == 1
    assert "CRF434" in (tmp_path / "log.txt").read_text()
    names = sorted(entry.name for entry in (tmp_path / "out" / "shards").iterdir())
    assert names == [f"part-00000-0000{i}.{output_format}" for i in range(2)], "whole shards, and nothing else"
    assert read_manifest(tmp_path / "out")["status"] == "stopped"
    assert start(tmp_path, *args).wait() == 0
    manifest = read_manifest(tmp_path / "out")
    assert manifest["counts"]["n_docs"] == 21
    assert manifest["runs"][1]["n_docs"] == 1


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path, model):
    lines = make_lines(20_000)
    path = write_lines(tmp_path / "a.txt", lines)
    args = [model, path, tmp_path / "out", "--shard-size", 250, "-n", 2]
    source = random.Random(0)
    n_kills = 0
    while n_kills < 4:
        n_before = n_shards(tmp_path / "out")
        process = start(tmp_path, *args)
        # from the next shard on, a different moment each time, and never so late that a fast machine has finished
        wait_until(lambda n=n_before, p=process: n_shards(tmp_path / "out") > n or p.poll() is not None)
        time.sleep(source.random() / 10)
        if process.poll() is not None:
            break
        process.kill()
        process.wait()
        n_kills += 1
    assert start(tmp_path, *args).wait() == 0
    assert n_kills > 1
    assert [row["id"] for row in read_rows(tmp_path / "out")] == [f"{path}:{i + 1}" for i in range(len(lines))]
    assert [row["text"] for row in read_rows(tmp_path / "out")] == lines
    assert read_errors(tmp_path / "out") == []
    assert read_manifest(tmp_path / "out")["counts"]["n_docs"] == len(lines)


def n_shards(output):
    return len(shard_paths(output)) if (output / "shards").is_dir() else 0


@pytest.mark.slow
def test_20000_lines_as_nlp_pipe_has_them(tmp_path, model, loaded):
    lines = make_lines(20_000)
    path = write_lines(tmp_path / "a.txt", lines)
    annotate(Job(model, str(tmp_path / "out"), "spacy"), [path], n_process=2)
    docs = read_docs(tmp_path / "out", loaded.vocab)
    from outputs import ent_rows

    assert [doc.text for doc in docs] == lines
    assert_same_entities([ent_rows(doc, "prob") for doc in docs], loaded.pipe(lines))
