"""Thresholds in the config, at run time, and as spaCy's `find-threshold` sets them."""

import pytest
import spacy
from spacy.cli.find_threshold import find_threshold
from spacy.tokens import DocBin
from tiny_pipelines import SENTENCES, make_examples, predict_ents


@pytest.fixture
def stored(trained, tmp_path):
    trained.to_disk(tmp_path / "model")
    return tmp_path / "model"


def load(path, **settings):
    return spacy.load(path, config={f"components.ner_crf.{name}": value for name, value in settings.items()})


def test_a_setting_of_the_config_is_not_undone_by_the_file(stored, trained):
    assert any(predict_ents(load(stored)))
    assert not any(predict_ents(load(stored, threshold=1.0)))
    assert load(stored, prob_attr="prob")("Bob left Paris").ents[0]._.prob > 0.5
    assert predict_ents(load(stored, threshold=0.0)) == predict_ents(trained)


def test_a_setting_that_was_changed_by_hand_is_kept_in_the_file(stored, tmp_path):
    nlp = load(stored)
    nlp.get_pipe("ner_crf").cfg["threshold"] = 1.0
    nlp.to_disk(tmp_path / "changed")
    assert not any(predict_ents(spacy.load(tmp_path / "changed")))


def test_find_threshold_drops_entities_by_their_probability(stored, tmp_path, capsys):
    nlp = load(stored)
    docs = [example.reference for example in make_examples(nlp, SENTENCES)]
    DocBin(docs=docs).to_disk(tmp_path / "dev.spacy")
    best, score, scores = find_threshold(stored, tmp_path / "dev.spacy", "ner_crf", "threshold", "ents_r", n_trials=5)
    assert (best, score) == (0.0, 1.0)
    assert list(scores.values()) == sorted(scores.values(), reverse=True)
    assert scores[1.0] == 0.0
