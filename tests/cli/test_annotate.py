"""`python -m spacy crf annotate`, through spaCy's own command line."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import spacy
import typer
from spacy.cli._util import app as spacy_app
from typer.testing import CliRunner

from spacy_bilstm_crf.annotate import Job, Summary, run
from spacy_bilstm_crf.cli import COMMANDS

SUMMARY = Summary(n_docs=10, n_tokens=50, n_entities=7, n_failures=0, n_shards=2, n_kept=0, n_new_docs=10, seconds=2.0)


def call(*args):
    return CliRunner().invoke(spacy_app, ["crf", "annotate", *map(str, args)])


@pytest.fixture
def called(monkeypatch):
    """Replaces the run: what it was called with, and what it returns or raises."""
    state = {"result": SUMMARY}

    def annotate(job, inputs, **settings):
        state.update(job=job, inputs=inputs, settings=settings)
        if isinstance(state["result"], BaseException):
            raise state["result"]
        return state["result"]

    monkeypatch.setattr(run, "annotate", annotate)
    return state


def test_it_is_a_command():
    assert "annotate" in COMMANDS
    result = call("--help")
    assert result.exit_code == 0
    for option in ("--engine", "--n-process", "--text-field", "--format", "--retry-errors"):
        assert option in result.output


def test_defaults(called):
    assert call("model", "a.txt", "out").exit_code == 0
    assert called["job"] == Job("model", "out")
    assert called["inputs"] == ["a.txt"]
    assert called["settings"] == {
        "engine": "local",
        "n_process": 1,
        "gpu_id": -1,
        "ray_address": None,
        "force": False,
        "retry_errors": False,
        "show_progress": True,
    }


def test_options_reach_the_run(called):
    options = (
        "--format parquet --engine ray -n 3 -g 0 --ray-address auto --text-field body --id-field key --shard-size 7"
    )
    options += " --no-probabilities --exclude tagger,parser --code code.py --retry-errors -F"
    assert call("model", "a.txt", "b/*.jsonl", "out", *options.split()).exit_code == 0
    assert called["inputs"] == ["a.txt", "b/*.jsonl"]
    assert called["job"] == Job(
        "model", "out", "parquet", "body", "key", 7, exclude=("tagger", "parser"), code="code.py", probabilities=False
    )
    settings = {"engine": "ray", "n_process": 3, "gpu_id": 0, "ray_address": "auto", "force": True}
    assert called["settings"] == {**settings, "retry_errors": True, "show_progress": True}


def test_the_summary_says_how_many(called):
    result = call("model", "a.txt", "out")
    for text in ("10", "50", "7", "10 in 2.0 s, 5 a second", "Everything is in out"):
        assert text in result.output


def test_errors_have_an_exit_code_and_a_number(called):
    called["result"] = Summary(9, 50, 7, 1234, 2, 1, 5, 2.0)
    result = call("model", "a.txt", "out")
    assert result.exit_code == 3
    assert "1,234 documents could not be annotated" in result.output
    assert "out/errors.jsonl" in result.output
    assert "2 (1 from earlier runs)" in result.output


def test_an_interruption_has_its_own(called):
    called["result"] = KeyboardInterrupt()
    result = call("model", "a.txt", "out")
    assert result.exit_code == 130
    assert "same command again" in result.output


@pytest.mark.parametrize("error", [ValueError("[CRF999] message"), ImportError("[CRF999] message"), OSError("message")])
def test_a_run_that_stops(called, error):
    called["result"] = error
    result = call("model", "a.txt", "out")
    assert result.exit_code == 1
    assert "message" in result.output


def test_messages_name_what_is_wrong(tmp_path):
    (tmp_path / "a.txt").write_text("x\n")
    for args, code in [
        (("model", "missing.txt", "out"), "CRF420"),
        (("no_such_model", tmp_path / "a.txt", tmp_path / "out"), "CRF432"),
        (("model", tmp_path / "a.txt", "out", "--format", "csv"), "CRF435"),
    ]:
        result = call(*args)
        assert result.exit_code == 1
        assert code in result.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("args", "extra"), [(["--format", "parquet"], "annotate"), (["--engine", "ray"], "ray"), ([], None)]
)
def test_what_is_missing_is_named_and_the_rest_works_without(tmp_path, monkeypatch, args, extra):
    for name in [name for name in sys.modules if name.split(".")[0] in ("ray", "pyarrow")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("ray", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "a.txt").touch()
    spacy.blank("en").to_disk(tmp_path / "model")
    result = call(tmp_path / "model", tmp_path / "a.txt", tmp_path / "out", *args)
    assert result.exit_code == (0 if extra is None else 1)
    if extra is not None:
        assert "CRF426" in result.output
        assert f"spacy-bilstm-crf[{extra}]" in "".join(result.output.split())


def test_python_m_spacy(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "PER", "pattern": "Bob"}])
    nlp.to_disk(tmp_path / "model")
    lines = [json.dumps({"text": "Bob left", "n": 1}), "bad"]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    command = [sys.executable, "-m", "spacy", "crf", "annotate", "model", "*.jsonl", "out"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 3, result.stderr
    assert "docs" in result.stderr, "the progress bar"
    assert "left]" in result.stderr
    assert "1 document could not be annotated" in result.stdout
    (row,) = map(json.loads, (tmp_path / "out" / "shards" / "part-00000-00000.jsonl").read_text().splitlines())
    entity = {"start": 0, "end": 3, "token_start": 0, "token_end": 1, "text": "Bob", "label": "PER"}
    assert row == {
        "id": "a.jsonl:1",
        "text": "Bob left",
        "entities": [{**entity, "probability": None}],
        "model": "en_pipeline",
        "model_version": "0.0.0",
        "n": 1,
    }
    error = json.loads((tmp_path / "out" / "errors.jsonl").read_text())
    assert error["id"] == "a.jsonl:2"
    assert "CRF427" in error["reason"]


def test_the_documentation_names_the_options_that_there_are():
    text = (Path(__file__).parents[2] / "docs" / "annotate.md").read_text(encoding="utf8")
    described = set(re.findall(r"--[a-z]+(?:-[a-z]+)*", text))
    options = {
        name
        for parameter in typer.main.get_command(spacy_app).commands["crf"].commands["annotate"].params
        for name in [*parameter.opts, *parameter.secondary_opts]
        if name.startswith("--")
    }
    assert described <= options
    assert options - {"--probabilities"} <= described
