"""Gold and predicted entities side by side, against what spaCy's scorer says."""

import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example
from tiny_pipelines import SENTENCES, make_examples, train_nlp

from spacy_bilstm_crf.report.mistakes import LabelCounts, count_labels, find_mistakes
from spacy_bilstm_crf.report.scored import check_entities, find_recognizer, read_scored_docs, score_examples


@pytest.fixture(scope="module")
def nlp():
    return train_nlp()


# Annotated otherwise than the model has learnt it.
ODD = [
    *SENTENCES,
    ("Anna Schmidt left Paris .", [(0, 1, "PER"), (3, 4, "ORG")]),
    ("Dan works at Globex", [(3, 4, "ORG"), (1, 2, "PER")]),
    ("", []),
]


def collect(nlp, examples, **options):
    _, pipe = find_recognizer(nlp)
    batches = score_examples(nlp, examples, **options)
    return [doc for scored in batches for doc in read_scored_docs(scored, pipe.labels)]


@pytest.mark.parametrize("batch_size", [2, 100])
def test_scores_are_those_of_spacy(nlp, batch_size):
    docs = collect(nlp, make_examples(nlp, ODD), batch_size=batch_size)
    counts = LabelCounts()
    for entry in count_labels(docs, find_mistakes(docs), 0.0).values():
        counts.add(entry)
    scores = nlp.evaluate(make_examples(nlp, ODD))
    assert counts.exact == pytest.approx((scores["ents_p"], scores["ents_r"], scores["ents_f"]))
    assert 0 < counts.exact[2] < 1


def test_probabilities_are_those_of_the_pipe(nlp):
    docs = collect(nlp, make_examples(nlp, ODD))
    pipe = nlp.get_pipe("ner_crf")
    for doc, example in zip(docs, make_examples(nlp, ODD), strict=True):
        predictions = pipe.read_batch([example.predicted])
        found = predictions.score(predictions.read_entities(predictions.best_paths()))
        assert [ent.prob for ent in doc.predicted] == pytest.approx(found.probabilities.tolist(), abs=1e-5)
        for gold, prob in zip(doc.gold, doc.gold_probs, strict=True):
            matching = [ent.prob for ent in doc.predicted if ent.as_gold == gold]
            assert 0 <= prob <= 1
            assert not matching or prob == pytest.approx(matching[0], abs=1e-5)


def test_gold_that_the_model_cannot_say_has_no_probability(nlp):
    predicted = Doc(nlp.vocab, words=["Bob", "left"])
    reference = Doc(nlp.vocab, words=["Bo", "b", "left"], spaces=[False, True, False])
    reference.ents = [Span(reference, 0, 1, "PER"), Span(reference, 2, 3, "unheard")]
    (doc,) = collect(nlp, [Example(predicted, reference)])
    assert doc.gold_probs == [None, None]


def test_missing_annotation_is_not_judged(nlp):
    reference = Doc(nlp.vocab, words=["Bob", "left", "Paris", "."], ents=["", "O", "B-LOC", "O"])
    (doc,) = collect(nlp, [Example(Doc(nlp.vocab, words=["Bob", "left", "Paris", "."]), reference)])
    assert [ent.label for ent in doc.predicted] == ["PER", "LOC"]
    probabilities, is_right, labels = check_entities([doc])
    assert (len(probabilities), is_right.tolist(), labels) == (1, [True], ["LOC"])


def test_entities_that_were_set_before_have_no_probability():
    nlp = train_nlp()
    nlp.add_pipe("entity_ruler", before="ner_crf").add_patterns([{"label": "LOC", "pattern": "Bob"}])
    docs = collect(nlp, make_examples(nlp, [("Bob left Paris", [(0, 1, "PER"), (2, 3, "LOC")])]))
    assert [(ent.label, ent.prob is None) for ent in docs[0].predicted] == [("LOC", True), ("LOC", False)]


def test_the_recognizer_is_found_by_its_name(nlp):
    assert find_recognizer(nlp)[0] == find_recognizer(nlp, "ner_crf")[0] == "ner_crf"
    with pytest.raises(ValueError, match=r"CRF470.*called other"):
        find_recognizer(nlp, "other")
    with pytest.raises(ValueError, match=r"CRF470.*none"):
        find_recognizer(spacy.blank("en"))
    two = spacy.blank("en")
    two.add_pipe("ner_crf")
    two.add_pipe("ner_crf", name="second")
    with pytest.raises(ValueError, match=r"CRF470.*ner_crf, second"):
        find_recognizer(two)
    assert find_recognizer(two, "second")[1] is two.get_pipe("second")
