"""From records to annotated Docs."""

import pytest
import spacy
from outputs import ent_rows, make_lines
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span

from spacy_bilstm_crf.annotate.reading import Failure, Record
from spacy_bilstm_crf.annotate.tagging import (
    annotate_records,
    get_prob_attr,
    in_chunks,
    memory_zone,
    read_entities,
    want_probabilities,
)


def records(texts):
    return [Record(str(i), str(i), text) for i, text in enumerate(texts)]


def outcomes(results):
    return [result.reason if isinstance(result, Failure) else result[1].text for result in results]


@pytest.fixture
def failing():
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "PER", "pattern": "Ann"}])
    nlp.add_pipe("test_fails_on_bad")
    return nlp


def test_entities_are_those_of_nlp_pipe(loaded):
    lines = make_lines(50)
    results = annotate_records(loaded, records(lines))
    for (record, doc), expected in zip(results, loaded.pipe(lines), strict=True):
        assert record.text == doc.text == expected.text
        assert read_entities(doc, "prob") == ent_rows(expected, "prob")
    assert sum(len(doc.ents) for _, doc in results) > 20


def test_a_document_that_fails_costs_no_other(failing):
    results = annotate_records(failing, records(["Ann a", "BAD Ann", "Ann b", "BAD"]))
    bad = "RuntimeError: this document is bad"
    assert outcomes(results) == ["Ann a", bad, "Ann b", bad]
    assert [ent.text for i in (0, 2) for ent in results[i][1].ents] == ["Ann", "Ann"]
    assert results[1].id == "1"


def test_a_text_that_is_too_long_for_the_pipeline_fails(failing):
    failing.max_length = 10
    results = annotate_records(failing, records(["short", "x" * 11]))
    assert results[0][1].text == "short"
    assert "E088" in results[1].reason


def test_half_of_a_surrogate_pair_fails(failing):
    results = annotate_records(failing, records(["good", "bad \ud800"]))
    assert "surrogates not allowed" in results[1].reason


def test_documents_that_the_pipeline_drops_are_reported(failing):
    failing.set_error_handler(lambda name, proc, docs, error: None)
    results = annotate_records(failing, records(["good", "BAD", "better"]))
    assert outcomes(results)[::2] == ["good", "better"]
    assert "CRF438" in results[1].reason


def test_what_could_not_be_read_stays_in_its_place(failing):
    failure = Failure("x", "x", "not read")
    assert outcomes(annotate_records(failing, [failure, *records(["a"]), failure])) == ["not read", "a", "not read"]
    assert annotate_records(failing, []) == []


def test_stored_docs_keep_their_tokens_and_annotation(failing):
    source = spacy.blank("en")
    doc = Doc(source.vocab, words=["Ann", "unheard-of", "Ann"], spaces=[True, False, False], user_data={"key": 1})
    doc.ents = [Span(doc, 1, 2, "NEW_LABEL")]
    doc.spans["group"] = [Span(doc, 0, 1, "OTHER_LABEL")]
    docs = DocBin(docs=[doc, Doc(source.vocab, words=["BAD"]), Doc(source.vocab)], store_user_data=True)
    stored = [Record(str(i), str(i), stored=(docs, i)) for i in range(3)]
    for _ in range(2):  # in the second zone nothing is left of the first
        with memory_zone(failing):
            (_, first), failure, (_, empty) = annotate_records(failing, stored)
            assert [token.text for token in first] == ["Ann", "unheard-of", "Ann"]
            assert first.text == "Ann unheard-ofAnn"
            assert [(ent.text, ent.label_) for ent in first.ents] == [
                ("Ann", "PER"),
                ("unheard-of", "NEW_LABEL"),
                ("Ann", "PER"),
            ]
            assert [span.label_ for span in first.spans["group"]] == ["OTHER_LABEL"]
            assert first.user_data["key"] == 1
            assert "RuntimeError" in failure.reason
            assert len(empty) == 0
            del first, empty


def test_words_are_forgotten(loaded):
    with memory_zone(loaded):
        with memory_zone(loaded):  # a caller may have opened one
            annotate_records(loaded, records(["qwertz uiop"]))
        assert "qwertz" in loaded.vocab.strings
    assert "qwertz" not in loaded.vocab.strings


def test_chunks_are_bounded_in_documents_and_text(monkeypatch):
    monkeypatch.setattr("spacy_bilstm_crf.annotate.tagging._MAX_CHARACTERS", 10)
    items = [*records(["xxx"] * 5), Failure("", "", ""), *records(["y" * 50, "z"])]
    assert [len(chunk) for chunk in in_chunks(iter(items), 3)] == [3, 3, 1, 1]
    assert [len(chunk) for chunk in in_chunks(iter(items), 100)] == [4, 3, 1]
    assert list(in_chunks(iter([]), 3)) == []


def test_where_probabilities_are(model):
    nlp = spacy.load(model)
    assert get_prob_attr(nlp) is None
    want_probabilities(nlp)
    assert get_prob_attr(nlp) == "prob"
    nlp.get_pipe("ner_crf").cfg["prob_attr"] = "how_probable"
    want_probabilities(nlp)
    assert nlp.get_pipe("ner_crf").cfg["prob_attr"] == "how_probable"


def test_a_pipeline_without_probabilities(failing):
    want_probabilities(failing)
    assert get_prob_attr(failing) is None
    ((_, doc),) = annotate_records(failing, records(["Ann"]))
    assert read_entities(doc, None)[0]["probability"] is None


def test_components_of_other_kinds_have_no_probabilities():
    nlp = Language()
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("test_fails_on_bad")
    assert get_prob_attr(nlp) is None
