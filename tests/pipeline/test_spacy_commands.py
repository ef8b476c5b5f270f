"""spaCy's own commands and pipeline tools, with an entity recognizer in the config."""

import json
import shutil
import sys
from pathlib import Path

import numpy
import pytest
import spacy
from spacy import util
from spacy.cli._util import app
from spacy.tokens import DocBin
from spacy.training.initialize import init_nlp
from thinc.api import Adam, Config
from tiny_pipelines import (
    LABELS,
    TEXTS,
    assert_same_predictions,
    get_ents,
    make_config,
    make_examples,
    predict_ents,
    predict_scores,
)
from typer.testing import CliRunner

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
SMALL = {
    "components.ner_crf.model.hidden_width": 8,
    "components.ner_crf.model.tok2vec.widths": "[4,4,4,4]",
    "components.ner_crf.model.tok2vec.rows": "[100,100,100,100]",
}
SHORT = {"training.max_steps": 6, "training.eval_frequency": 3, "training.optimizer.learn_rate": 0.01}


def run(*args, **overrides):
    """Run a command of spaCy in this process. Returns what it printed."""
    options = [f"--{name}={value}" for name, value in overrides.items()]
    result = CliRunner().invoke(app, [*map(str, args), *options])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "train.spacy"
    DocBin(docs=[eg.reference for eg in make_examples(spacy.blank("en"))]).to_disk(path)
    return path


@pytest.fixture(scope="module")
def paths(corpus):
    return {"paths.train": corpus, "paths.dev": corpus}


@pytest.fixture(scope="module")
def config_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("config") / "config.cfg"
    run("init", "fill-config", CONFIGS / "ner.cfg", path)
    return path


@pytest.fixture(scope="module")
def model_path(tmp_path_factory, config_path, paths):
    path = tmp_path_factory.mktemp("model")
    run("train", config_path, "-o", path, **{**paths, **SMALL, **SHORT, "training.max_steps": 30})
    return path / "model-best"


def test_init_fill_config_adds_every_setting(config_path):
    config = Config().from_disk(config_path)
    component = config["components"]["ner_crf"]
    assert component["factory"] == "ner_crf"
    assert component["scorer"] == {"@scorers": "spacy.ner_scorer.v1"}
    assert set(component["model"]) >= {"crf", "constrained", "depth", "hidden_width", "mixed_precision", "lr_scale"}
    assert config["training"]["score_weights"]["ents_f"] == 1.0


def test_init_fill_config_needs_nothing_but_the_factory(tmp_path):
    path = tmp_path / "base.cfg"
    path.write_text(
        '[nlp]\nlang = "en"\npipeline = ["ner_crf"]\n[components]\n[components.ner_crf]\nfactory = "ner_crf"\n'
    )
    run("init", "fill-config", path, tmp_path / "full.cfg")
    filled = Config().from_disk(tmp_path / "full.cfg")
    assert filled["components"]["ner_crf"]["model"]["@architectures"] == "spacy-bilstm-crf.BiLSTMCRF.v1"
    assert filled["training"]["score_weights"]["ents_f"] == 1.0


def test_debug_config(config_path, paths):
    assert "valid" in run("debug", "config", config_path, "--show-variables", **paths)


def test_debug_config_names_what_is_wrong(config_path, paths):
    result = CliRunner().invoke(
        app, ["debug", "config", str(config_path), "--components.ner_crf.model.hidden_width=wide"]
    )
    assert result.exit_code == 1
    assert "hidden_width" in result.output


def test_debug_model(config_path, paths):
    args = ("debug", "model", config_path, "ner_crf", "-P0", "-P1", "-P2", "-P3", "-DIM", "-PAR", "-GRAD", "-ATTR")
    output = run(*args, **paths, **SMALL)
    assert "bilstm_crf" in output
    assert "STEP 3 - prediction" in output


def test_debug_profile(model_path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # it writes to where it runs
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    assert "function calls" in run("debug", "profile", model_path, path)


def test_init_labels(config_path, paths, tmp_path):
    run("init", "labels", config_path, tmp_path, **paths)
    assert json.loads((tmp_path / "ner_crf.json").read_text()) == list(LABELS)


def test_train_writes_what_loads(model_path):
    nlp = spacy.load(model_path)
    assert nlp.pipe_names == ["ner_crf"]
    assert nlp.get_pipe("ner_crf").labels == LABELS
    assert nlp.meta["performance"]["ents_f"] > 0.5
    assert set(nlp.meta["performance"]) >= {"ents_p", "ents_r", "ents_per_type", "ner_crf_loss"}


def test_evaluate(model_path, corpus, tmp_path):
    output = run("evaluate", model_path, corpus, "-o", tmp_path / "metrics.json", "-dp", tmp_path)
    assert "NER F" in output
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["ents_f"] == pytest.approx(spacy.load(model_path).meta["performance"]["ents_f"])
    assert set(metrics["ents_per_type"]) == set(LABELS)


def test_evaluate_per_component(model_path, corpus, tmp_path):
    run("evaluate", model_path, corpus, "-o", tmp_path / "metrics.json", "--per-component")
    assert "ner_crf" in json.loads((tmp_path / "metrics.json").read_text())


def test_benchmark_speed(model_path, corpus):
    output = run("benchmark", "speed", model_path, corpus, "--batches", 30, "--warmup", 1)
    assert "words/s" in output


def test_apply(model_path, tmp_path):
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "one.txt").write_text("Anna Schmidt works at Acme Corp")
    run("apply", model_path, texts, tmp_path / "out.spacy")
    (doc,) = DocBin().from_disk(tmp_path / "out.spacy").get_docs(spacy.blank("en").vocab)
    assert get_ents(doc) == get_ents(spacy.load(model_path)("Anna Schmidt works at Acme Corp"))


def test_assemble(model_path, tmp_path):
    path = tmp_path / "config.cfg"
    config = {"nlp": {"lang": "en", "pipeline": ["sentencizer", "ner_crf"]}, "components": {}}
    config["components"]["sentencizer"] = {"factory": "sentencizer"}
    config["components"]["ner_crf"] = {"source": str(model_path)}
    Config(config).to_disk(path)
    run("assemble", path, tmp_path / "assembled")
    nlp = spacy.load(tmp_path / "assembled")
    assert nlp.pipe_names == ["sentencizer", "ner_crf"]
    assert_same_predictions(spacy.load(model_path), nlp)


def test_package(model_path, tmp_path, monkeypatch):
    run("package", model_path, tmp_path, "--build", "none", "--name", "tiny_crf", "--version", "1.2.3")
    folder = tmp_path / "en_tiny_crf-1.2.3"
    requirements = json.loads((folder / "meta.json").read_text())["requirements"]
    assert any(line.startswith("spacy-bilstm-crf") for line in requirements), requirements
    shutil.copy(folder / "meta.json", folder / "en_tiny_crf")  # as the package's setup.py does
    monkeypatch.syspath_prepend(folder)
    nlp = __import__("en_tiny_crf").load()
    assert_same_predictions(spacy.load(model_path), nlp)
    sys.modules.pop("en_tiny_crf")


def test_training_from_a_packaged_or_stored_pipeline(model_path, config_path, paths, tmp_path):
    config = Config().from_disk(config_path, interpolate=False)
    config["components"]["ner_crf"] = {"source": str(model_path)}
    config.to_disk(tmp_path / "config.cfg")
    run("train", tmp_path / "config.cfg", "-o", tmp_path, **paths, **SHORT)
    assert spacy.load(tmp_path / "model-last").get_pipe("ner_crf").labels == LABELS


def test_frozen_components_stay_as_they_are(model_path, config_path, paths, tmp_path):
    config = Config().from_disk(config_path, interpolate=False)
    config["components"]["ner_crf"] = {"source": str(model_path)}
    config["components"]["second"] = make_config(overwrite=True) | {"factory": "ner_crf"}
    config["nlp"]["pipeline"] = ["ner_crf", "second"]
    config["training"]["frozen_components"] = ["ner_crf"]
    config["training"]["annotating_components"] = ["ner_crf"]
    config.to_disk(tmp_path / "config.cfg")
    run("train", tmp_path / "config.cfg", "-o", tmp_path, **paths, **SHORT)
    loaded = spacy.load(tmp_path / "model-last")
    original = spacy.load(model_path)
    for left, right in zip(predict_scores(original).arrays, predict_scores(loaded).arrays, strict=True):
        numpy.testing.assert_array_equal(left, right)


# Parts of pipelines


def test_a_sourced_component_is_saved_with_its_labels(trained, tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("ner_crf", source=trained)
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path, exclude=["sentencizer"])
    assert loaded.get_pipe("ner_crf").labels == LABELS
    assert_same_predictions(trained, loaded)


def make_shared(corpus):
    """The config that ships, small."""
    config = util.load_config(
        CONFIGS / "ner_shared.cfg",
        overrides={
            "paths.train": str(corpus),
            "paths.dev": str(corpus),
            "components.ner_crf.model.hidden_width": 16,
            "components.tok2vec.model.encode.width": 16,
            "components.tok2vec.model.encode.depth": 1,
            "components.tok2vec.model.embed.rows": [200, 100, 100, 100],
        },
    )
    util.fix_random_seed(0)
    return init_nlp(config.interpolate())


def test_the_shared_config_overfits_and_may_part_from_its_tok2vec(corpus, tmp_path):
    nlp = make_shared(corpus)
    optimizer = Adam(0.01)
    for _ in range(40):
        nlp.update(make_examples(nlp), sgd=optimizer, drop=0.1)
    assert nlp.get_pipe("tok2vec").listening_components == ["ner_crf"]
    assert nlp.evaluate(make_examples(nlp))["ents_f"] == 1.0
    nlp.to_disk(tmp_path / "shared")
    loaded = spacy.load(tmp_path / "shared")
    assert predict_ents(loaded) == predict_ents(nlp)
    loaded.replace_listeners("tok2vec", "ner_crf", ["model.tok2vec"])
    loaded.remove_pipe("tok2vec")
    assert predict_ents(loaded) == predict_ents(nlp)
    loaded.to_disk(tmp_path / "alone")
    assert_same_predictions(loaded, spacy.load(tmp_path / "alone"))
