"""`python -m spacy crf init-config`, through spaCy's own command line."""

import importlib.util
import sys

import pytest
import spacy
from spacy.cli._util import app as spacy_app
from spacy.util import load_model_from_config
from spacy.vectors import Vectors
from thinc.api import Config
from typer.testing import CliRunner

from spacy_bilstm_crf.cli import COMMANDS

HAS_TRANSFORMERS = importlib.util.find_spec("spacy_transformers") is not None


def run(*args):
    return CliRunner().invoke(spacy_app, ["crf", "init-config", *map(str, args)])


def read(path):
    return Config().from_disk(path, interpolate=False)


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    path = tmp_path_factory.mktemp("vectors")
    nlp = spacy.blank("en")
    nlp.vocab.vectors = Vectors(strings=nlp.vocab.strings, data=Vectors(shape=(1, 5)).data, keys=["the"])
    nlp.to_disk(path)
    return path


def test_it_writes_a_config_that_is_the_factorys_default(tmp_path):
    result = run(tmp_path / "new" / "config.cfg")
    assert result.exit_code == 0, result.output
    assert f"python -m spacy train {tmp_path / 'new' / 'config.cfg'} " in result.output
    config = read(tmp_path / "new" / "config.cfg")
    nlp = spacy.blank("en")
    nlp.add_pipe("ner_crf")
    assert config["components"] == nlp.config["components"]
    assert "vectors" not in config["paths"] or config["paths"]["vectors"] is None
    assert load_model_from_config(config.interpolate()).pipe_names == ["ner_crf"]


def test_stdout_gets_the_config_alone(tmp_path):
    result = run("-", "--lang", "de")
    assert result.exit_code == 0
    config = Config().from_str(result.stdout, interpolate=False)
    assert config["nlp"]["lang"] == "de"
    assert run(tmp_path / "config.cfg", "--lang", "de").exit_code == 0
    assert config == read(tmp_path / "config.cfg")


def test_errors_do_not_go_to_stdout():
    result = run("-", "--lang", "qq")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "CRF481" in result.stderr


@pytest.mark.parametrize(("given", "expected"), [("eng", "en"), ("xx", "xx"), ("zh", "zh")])
def test_languages(tmp_path, given, expected):
    assert run(tmp_path / "config.cfg", "--lang", given).exit_code == 0
    assert read(tmp_path / "config.cfg")["nlp"]["lang"] == expected


def test_vectors_are_read_and_loaded(tmp_path, vectors):
    result = run(tmp_path / "config.cfg", "--vectors", vectors)
    assert result.exit_code == 0, result.output
    config = read(tmp_path / "config.cfg")
    assert config["paths"]["vectors"] == str(vectors)
    assert config["initialize"]["vectors"] == "${paths.vectors}"
    assert config["components"]["ner_crf"]["model"]["tok2vec"]["include_static_vectors"] is True


def test_vectors_that_are_none_are_refused(tmp_path):
    spacy.blank("en").to_disk(tmp_path / "blank")
    for name in (tmp_path / "blank", tmp_path / "nowhere", "no_such_package", ""):
        result = run(tmp_path / "config.cfg", "--vectors", name)
        assert result.exit_code == 1
        assert "CRF482" in result.output
    assert not (tmp_path / "config.cfg").exists()


def test_vectors_and_a_transformer_exclude_each_other(tmp_path, vectors):
    result = run(tmp_path / "config.cfg", "--vectors", vectors, "--transformer", "roberta-base")
    assert result.exit_code == 1
    assert "CRF480" in result.output


def test_a_file_is_kept_unless_forced(tmp_path):
    path = tmp_path / "config.cfg"
    path.write_text("mine", encoding="utf8")
    result = run(path)
    assert result.exit_code == 1
    assert "CRF471" in result.output
    assert path.read_text(encoding="utf8") == "mine"
    assert run(path, "--force").exit_code == 0
    assert read(path)["nlp"]["pipeline"] == ["ner_crf"]


def test_it_says_what_a_transformer_needs(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy_transformers", None)
    result = run(tmp_path / "config.cfg", "--transformer", "roberta-base")
    assert result.exit_code == 1
    assert "CRF426" in result.output
    assert "[transformers]" in " ".join(result.output.split())


@pytest.mark.skipif(not HAS_TRANSFORMERS, reason="spacy-transformers is not installed")
@pytest.mark.parametrize("gpu", [False, True])
def test_a_transformer_on_either_device(tmp_path, gpu):
    result = run(tmp_path / "config.cfg", "--transformer", "some/encoder", *(["--gpu"] if gpu else []))
    assert result.exit_code == 0, result.output
    assert ("--gpu-id 0" in result.output) is gpu
    config = read(tmp_path / "config.cfg")
    assert config["paths"]["transformer"] == "some/encoder"
    assert config["nlp"]["pipeline"] == ["transformer", "ner_crf"]
    assert config["system"]["gpu_allocator"] == ("pytorch" if gpu else None)
    for name in ("transformer", "ner_crf"):
        assert config["components"][name]["model"]["mixed_precision"] is gpu
    assert config["components"]["ner_crf"]["model"]["lr_scale"] > 1.0
    assert config.interpolate()["components"]["transformer"]["model"]["name"] == "some/encoder"


def test_it_has_help():
    assert "init-config" in COMMANDS
    result = run("--help")
    assert result.exit_code == 0
    assert all(option in result.output for option in ("--lang", "--vectors", "--transformer", "--gpu", "--force"))
