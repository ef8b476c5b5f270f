"""The configs that ship: they are what `init-config` writes, spaCy's commands take them, and they train."""

import importlib.util
from pathlib import Path

import numpy
import pytest
import spacy
from spacy.cli._util import app
from spacy.tokens import DocBin
from spacy.training.initialize import init_nlp
from spacy.vectors import Vectors
from thinc.api import Config
from tiny_encoder import make_encoder
from tiny_pipelines import SENTENCES, get_ents, make_examples
from typer.testing import CliRunner

from spacy_bilstm_crf.cli.init_config import init_config, render_config

ROOT = Path(__file__).resolve().parents[1]
CONFIGS = sorted(ROOT.glob("configs/*.cfg"))
NEEDS_TRANSFORMERS = pytest.mark.skipif(
    importlib.util.find_spec("spacy_transformers") is None, reason="spacy-transformers is not installed"
)


def mark(path):
    return pytest.param(path, id=path.name, marks=NEEDS_TRANSFORMERS if "trf" in path.name else ())


ALL = [mark(path) for path in CONFIGS]


def load_choices():
    spec = importlib.util.spec_from_file_location("write_configs", ROOT / "scripts" / "write_configs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.CHOICES


CHOICES = load_choices()


def run(*args):
    """Run a command of spaCy in this process. Returns what it printed."""
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A corpus, vectors and a transformer, all made here, as settings of a config."""
    path = tmp_path_factory.mktemp("inputs")
    nlp = spacy.blank("en")
    DocBin(docs=[example.reference for example in make_examples(nlp)]).to_disk(path / "corpus.spacy")
    words = sorted({word for text, _ in SENTENCES for word in text.split()})
    data = numpy.random.default_rng(0).standard_normal((len(words), 7)).astype("float32")
    nlp.vocab.vectors = Vectors(strings=nlp.vocab.strings, data=data, keys=words)
    nlp.to_disk(path / "vectors")
    return {
        "paths.train": str(path / "corpus.spacy"),
        "paths.dev": str(path / "corpus.spacy"),
        "paths.vectors": str(path / "vectors"),
        "paths.transformer": path / "encoder",
    }


def get_inputs(inputs, path):
    """What of them a config needs."""
    config = Config().from_disk(path, interpolate=False)
    wanted = {name: value for name, value in inputs.items() if name.removeprefix("paths.") in config["paths"]}
    if "paths.transformer" in wanted:
        wanted["paths.transformer"] = str(make_encoder(inputs["paths.transformer"]))
    return wanted


def fill(path, tmp_path):
    run("init", "fill-config", path, tmp_path / path.name)
    return tmp_path / path.name


def flatten(config, prefix=""):
    flat = {}
    for key, value in config.items():
        if isinstance(value, dict) and value:
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


@pytest.mark.parametrize("name", CHOICES)
def test_a_config_is_what_its_template_gives(name):
    text = (ROOT / "configs" / name).read_text(encoding="utf8")
    assert text == render_config(CHOICES[name]), "edit the template, not the file, and run scripts/write_configs.py"


@pytest.mark.parametrize("path", [mark(ROOT / "configs" / name) for name in CHOICES])
def test_a_filled_config_is_what_init_config_writes(path, tmp_path, inputs, monkeypatch):
    choices = CHOICES[path.name]
    # The shipped file names no vectors, so there is nothing to look into.
    monkeypatch.setattr("spacy_bilstm_crf.cli.init_config._require_vectors", lambda name: None)
    written = init_config(choices).to_str(interpolate=False)
    assert written == fill(path, tmp_path).read_text(encoding="utf8")


@pytest.mark.parametrize("path", ALL)
def test_filling_a_config_changes_nothing_that_it_says(path, tmp_path):
    filled = flatten(Config().from_disk(fill(path, tmp_path), interpolate=False))
    said = flatten(Config().from_disk(path, interpolate=False))
    assert {name: filled.get(name) for name in said} == said
    assert len(filled) > len(said)


@pytest.mark.parametrize("path", ALL)
def test_filling_a_filled_config_changes_nothing(path, tmp_path):
    filled = fill(path, tmp_path)
    text = filled.read_text(encoding="utf8")
    assert fill(filled, tmp_path).read_text(encoding="utf8") == text


@pytest.mark.parametrize("path", ALL)
def test_debug_config_takes_a_filled_config(path, tmp_path, inputs):
    options = [f"--{name}={value}" for name, value in get_inputs(inputs, path).items()]
    assert "valid" in run("debug", "config", fill(path, tmp_path), "--show-variables", *options)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=NEEDS_TRANSFORMERS if "trf" in name else ()) for name in CHOICES]
)
def test_a_config_learns_sentences_by_heart(name, tmp_path, inputs):
    path = ROOT / "configs" / name
    settings = get_inputs(inputs, path)
    if "paths.transformer" in settings:
        # Nobody has trained it, so it must learn as fast as the rest.
        settings |= {
            "training.optimizer.learn_rate.initial_rate": 0.02,
            "training.optimizer.learn_rate.warmup_steps": 1,
        }
        settings |= {"components.ner_crf.model.lr_scale": 1.0}
    config = Config().from_disk(fill(path, tmp_path), overrides=settings)
    nlp = init_nlp(config)
    optimizer = nlp.resume_training()
    for _ in range(60):
        nlp.update(make_examples(nlp), sgd=optimizer)
        optimizer.step_schedules()
    assert nlp.evaluate(make_examples(nlp))["ents_f"] == 1.0
    nlp.to_disk(tmp_path / "model")
    texts = [text for text, _ in SENTENCES]
    loaded = spacy.load(tmp_path / "model")
    assert [get_ents(doc) for doc in loaded.pipe(texts)] == [get_ents(doc) for doc in nlp.pipe(texts)]
