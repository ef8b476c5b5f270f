"""`python -m spacy crf debug-data`, through spaCy's own command line."""

import shutil
from pathlib import Path

import pytest
import spacy
from spacy.cli._util import app as spacy_app
from spacy.tokens import Doc, DocBin, Span
from typer.testing import CliRunner

from spacy_bilstm_crf.cli.debug_data import debug_data, read_corpora

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "ner.cfg"
VOCAB = spacy.blank("en").vocab


def run(*args):
    return CliRunner().invoke(spacy_app, ["crf", "debug-data", "--no-format", *map(str, args)])


def make_doc(words, ents=(), **columns):
    doc = Doc(VOCAB, words=words.split("|"), **columns)
    doc.set_ents([Span(doc, *ent) for ent in ents])
    return doc


GOOD = [
    make_doc("Anna|met|Bob|.", [(0, 1, "PER"), (2, 3, "PER")]),
    make_doc("In|New|York|.", [(1, 3, "LOC")]),
]


@pytest.fixture
def check(tmp_path):
    """Write corpora and check them with the default config and further arguments."""

    def check_corpora(train, dev, *args):
        paths = []
        for name, docs in (("train", train), ("dev", dev)):
            path = tmp_path / f"{name}.spacy"
            DocBin(docs=docs, store_user_data=True).to_disk(path)
            paths += [f"--paths.{name}", path]
        return run(CONFIG, *paths, *args)

    return check_corpora


def test_figures_of_a_good_corpus(check):
    dev = make_doc("Carla|flew|to|Rome|.", [(0, 1, "PER"), (3, 4, "LOC")])
    result = check(GOOD, [dev])
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.output.splitlines()]
    assert ["Documents", "2", "1"] in lines
    assert ["Tokens", "8", "5"] in lines
    assert ["Entities", "3", "2"] in lines
    assert ["PER", "2", "1"] in lines
    assert ["LOC", "1", "1"] in lines
    assert "1 / 1 / 2" in result.output
    assert "Everything can be used" in result.output
    assert "No text is in both" in result.output


def make_negative(words, *spans, ents=()):
    doc = make_doc(words, ents)
    doc.spans["no"] = [Span(doc, *span) for span in spans]
    return doc


ODD = {
    "1 x entities that do not fall on the tokens": make_doc(
        "met|Ann|a|.", [(1, 2, "PER")], spaces=[True, False, False, False]
    ),
    "1 x entities that begin or end on white space": make_doc("Anna| |met", [(0, 2, "PER")]),
    "1 x entities that cross a sentence start": make_doc(
        "Anna|met|Bob", [(0, 3, "PER")], sent_starts=[True, False, True]
    ),
    "1 x documents with single tags that no tag path has": make_doc("a|b", user_data={"crf_tags": ["B-PER", "O"]}),
    "Labels with fewer than 20 entities": make_doc("Acme", [(0, 1, "ORG")]),
    "1 x incorrect spans of a label that no entity has": make_negative("Anna|met", (0, 1, "ELSE")),
}


@pytest.mark.parametrize("finding", ODD)
def test_what_cannot_be_used_is_found_and_does_not_stop(check, finding):
    result = check([*GOOD, ODD[finding]], GOOD, "--components.ner_crf.incorrect_spans_key", "no")
    assert result.exit_code == 0, result.output
    assert finding in " ".join(result.output.split())


def test_misaligned_entities_are_shown_with_the_tokens_that_there_are(check):
    doc = make_doc("met|Ann|a|.", [(1, 2, "PER")], spaces=[True, False, False, False])
    result = check([*GOOD, doc], GOOD)
    assert "'Ann' (PER) in 'met Anna.', tokens here: ['Anna']" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("doc", "finding"),
    [
        (make_doc("Anna|met", [(0, 1, "B-PER")]), "CRF002"),
        (make_negative("Anna|met", (0, 1, "PER"), ents=[(0, 1, "PER")]), "CRF310"),
        (make_doc("Anna|met", user_data={"crf_tags": ["O"]}), "CRF311"),
        (make_doc("Anna|met", user_data={"crf_labels": "PER"}), "CRF312"),
    ],
)
def test_what_would_stop_a_training_is_an_error(check, doc, finding):
    result = check([*GOOD, doc], GOOD, "--components.ner_crf.incorrect_spans_key", "no")
    assert result.exit_code == 1
    assert finding in result.output
    assert "1 x " in result.output


def test_adjacent_entities_matter_to_io(check):
    doc = make_doc("Anna|Bob", [(0, 1, "PER"), (1, 2, "PER")])
    assert "which become one" not in check([*GOOD, doc], GOOD).output
    output = check([*GOOD, doc], GOOD, "--components.ner_crf.tag_scheme", "IO").output
    assert "1 x adjacent entities of one label, which become one" in " ".join(output.split())


def test_leaked_and_contradictory_texts_are_found(check):
    other = make_doc("Anna|met|Bob|.", [(0, 1, "PER")])
    result = check([*GOOD, other], GOOD)
    output = " ".join(result.output.split())
    assert "2 x texts of the development data that are training data too" in output
    assert "1 x texts that occur several times, annotated differently" in output
    assert check(GOOD * 2, [other]).output.count("annotated differently") == 0


def test_labels_of_one_side_only_are_found(check):
    output = check(GOOD, [make_doc("Acme|Corp", [(0, 2, "ORG")])]).output
    assert "that the training data does not have: ORG" in " ".join(output.split())
    assert "cannot score: LOC, PER" in " ".join(output.split())


@pytest.mark.parametrize("train", [GOOD, [make_doc("no|entity")]])
def test_nothing_to_learn_or_to_evaluate_is_an_error(check, train):
    result = check(train, [make_doc("nothing|here")])
    assert result.exit_code == 1
    assert "There is no entity in the development data" in result.output


def test_partial_annotation_is_counted(check):
    partial = make_doc("Anna|met|Bob")
    partial.set_ents([], missing=[partial[0:1]])
    tags = make_doc("Anna|met", user_data={"crf_tags": ["S-PER", None]})
    output = check([*GOOD, partial, tags, Doc(VOCAB, words=["not", "annotated"])], GOOD).output
    lines = [line.split() for line in output.splitlines()]
    assert ["...", "annotated", "in", "part", "2", "0"] in lines
    assert ["...", "not", "annotated", "1", "0"] in lines
    assert ["...", "not", "annotated", "3", "0"] in lines


def test_examples_are_few_unless_all_are_wanted(check):
    docs = [make_doc(f"Anna{i}| |met", [(0, 2, "PER")]) for i in range(6)]
    assert "and 3 more" in check([*GOOD, *docs], GOOD).output
    verbose = check([*GOOD, *docs], GOOD, "--verbose").output
    assert all(f"Anna{i}" in verbose for i in range(6))


def test_warnings_can_be_left_out(check):
    output = check([*GOOD, make_doc("Anna| |met", [(0, 2, "PER")])], GOOD, "--ignore-warnings").output
    assert "white space" not in output
    assert "Entities" in output


def test_a_config_without_the_component_is_refused(tmp_path):
    config = tmp_path / "tagger.cfg"
    nlp = spacy.blank("en")
    nlp.add_pipe("tagger")
    nlp.config.to_disk(config)
    for path in ("train", "dev"):
        DocBin(docs=GOOD).to_disk(tmp_path / f"{path}.spacy")
    result = run(config, "--paths.train", tmp_path / "train.spacy", "--paths.dev", tmp_path / "dev.spacy")
    assert result.exit_code == 1
    assert "CRF445" in result.output


def test_missing_corpora_are_said(tmp_path):
    result = run(CONFIG, "--paths.train", tmp_path / "none.spacy", "--paths.dev", tmp_path / "none.spacy")
    assert result.exit_code == 1
    assert "none.spacy" in result.output


def test_a_component_is_chosen_by_name(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("ner_crf", name="first")
    nlp.add_pipe("ner_crf", name="second", config={"tag_scheme": "IO"})
    config = tmp_path / "two.cfg"
    nlp.config.to_disk(config)
    DocBin(docs=GOOD).to_disk(tmp_path / "data.spacy")
    overrides = {f"paths.{name}": str(tmp_path / "data.spacy") for name in ("train", "dev")}
    assert read_corpora(config, overrides, None)[0].scheme.name == "BIOES"
    assert read_corpora(config, overrides, "second")[0].scheme.name == "IO"
    with pytest.raises(ValueError, match=r"CRF445.*no component 'third' with"):
        debug_data(config, overrides=overrides, component="third")
    nlp = spacy.blank("en")
    nlp.add_pipe("ner")
    nlp.config.to_disk(config)
    with pytest.raises(ValueError, match=r"CRF445.*no component with the factory ner_crf; there are: none"):
        debug_data(config, overrides=overrides)
    shutil.rmtree(tmp_path)
