import functools

import numpy
import pytest
import spacy
from enumeration import (
    SCHEMES,
    VOCAB,
    Paths,
    assert_loss,
    log_sum,
    make_example,
    make_pipe,
    make_potentials,
    obeys_structure,
    posterior,
    read_entities,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc, Span
from spacy.training import Example

LABELS = ["PER", "LOC"]
paths_of = functools.cache(lambda scheme, n_tokens, constrained: Paths(scheme, LABELS, n_tokens, constrained))


def mark(example, *spans):
    reference = example.reference
    reference.spans["incorrect"] = [Span(reference, *span) for span in spans]
    return example


def make_negative_pipe(scheme="BIOES", **settings):
    return make_pipe(scheme, LABELS, incorrect_spans_key="incorrect", **settings)


def assert_equals_enumeration(pipe, example, seed, negatives, consistent, is_space, starts_sentence, scale=1.0):
    """-log(1 - P) for each incorrect span is added to the loss, and its gradient to the gradient."""
    scheme, n_tokens = pipe.tag_scheme.name, len(is_space)
    paths = paths_of(scheme, n_tokens, pipe.allowed_transitions is not None)
    potentials = make_potentials(numpy.random.default_rng(seed), [n_tokens], len(paths.tags), scale)
    scores = paths.scores(potentials)
    possible = paths.select(obeys_structure(scheme, is_space, starts_sentence))
    allowed = possible & paths.select(consistent)
    loss = log_sum(scores[possible]) - log_sum(scores[allowed])
    weights = posterior(scores, possible) - posterior(scores, allowed)
    for span in negatives:
        spelt = paths.select(lambda tags, _: span in read_entities(scheme, tags, is_space, starts_sentence))  # noqa: B023
        spelt &= possible
        if spelt.any():
            log_p = log_sum(scores[spelt]) - log_sum(scores[possible])
            loss -= numpy.log1p(-numpy.exp(log_p))
            odds = numpy.exp(log_p) / -numpy.expm1(log_p)
            weights += odds * (posterior(scores, spelt) - posterior(scores, possible))
    assert_loss(pipe, example, potentials, loss, paths.expected_counts(potentials, weights))


@st.composite
def documents(draw):
    """Tokens, some of them white space, some of them beginning a sentence; a few spans, some of them overlapping."""
    words = draw(st.lists(st.sampled_from(["a", "b", " "]), min_size=1, max_size=3))
    starts = [True, *(draw(st.booleans()) for _ in words[1:])]
    positions = [(i, j, label) for i in range(len(words)) for j in range(i + 1, len(words) + 1) for label in LABELS]
    spans = draw(st.lists(st.sampled_from(positions), min_size=1, max_size=3, unique=True))
    return words, starts, spans


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("constrained", [True, False])
@settings(max_examples=40, deadline=None)
@given(documents(), st.integers(0, 1000))
def test_incorrect_spans_equal_enumeration(scheme, constrained, drawn, seed):
    words, starts, spans = drawn
    example = mark(make_example(words, predicted={"sent_starts": starts}), *spans)
    is_space = [not word.strip() for word in words]
    pipe = make_negative_pipe(scheme, constrained=constrained)
    assert_equals_enumeration(pipe, example, seed, spans, lambda tags, _: True, is_space, starts)


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000))
def test_incorrect_spans_beside_entities_equal_enumeration(scheme, seed):
    example = make_example(["a", "b", "c"], {"ents": ["B-PER", "O", "O"]})
    example.reference.set_ents(example.reference.ents, missing=[example.reference[2:3]], default="unmodified")
    spans = [(0, 1, "LOC"), (2, 3, "PER"), (1, 3, "LOC")]
    expected = make_pipe(scheme, LABELS).tag_scheme.spans_to_tags([(0, 1, "PER")], 3)

    def consistent(tags, _):
        return tags[:2] == expected[:2]

    pipe = make_negative_pipe(scheme)
    assert_equals_enumeration(pipe, mark(example, *spans), seed, spans, consistent, [False] * 3, [True] + [False] * 2)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_gradient_is_that_of_the_loss_even_where_the_span_is_almost_certain(scheme):
    example = mark(make_example(["a", "b"]), (0, 2, "PER"))
    pipe = make_negative_pipe(scheme)
    inside = [pipe.tags.index(tag) for tag in pipe.tag_scheme.spans_to_tags([(0, 2, "PER")], 2)]
    for boost in (0.0, 3.0, 10.0):
        potentials = make_potentials(numpy.random.default_rng(0), [2], len(pipe.tags))
        potentials.emissions[[0, 1], inside] += boost
        _, gradient = pipe.get_loss([example], potentials)
        for token in range(2):
            for tag in range(len(pipe.tags)):
                losses = []
                for step in (0.01, -0.01):
                    moved = make_potentials(numpy.random.default_rng(0), [2], len(pipe.tags))
                    moved.emissions[[0, 1], inside] += boost
                    moved.emissions[token, tag] += step
                    losses.append(pipe.get_loss([example], moved)[0])
                assert gradient.emissions[token, tag] == pytest.approx((losses[0] - losses[1]) / 0.02, abs=2e-3)


@pytest.mark.parametrize("boost", [50.0, 1000.0])
def test_a_span_that_is_certain_gives_a_large_finite_loss(boost):
    example = mark(make_example(["a"]), (0, 1, "PER"))
    pipe = make_negative_pipe()
    potentials = make_potentials(numpy.random.default_rng(0), [1], len(pipe.tags))
    potentials.emissions[0, pipe.tags.index("S-PER")] += boost
    loss, gradient = pipe.get_loss([example], potentials)
    assert 20 < loss < 25
    assert all(numpy.isfinite(array).all() for array in gradient.arrays)


def test_batches_add_up():
    rng = numpy.random.default_rng(0)
    pipe = make_negative_pipe()
    words = [["a", "b", "c"], ["d"], [], ["e", "f"]]
    examples = [make_example(each) for each in words]
    mark(examples[0], (0, 1, "PER"), (0, 2, "PER"), (1, 3, "LOC"))
    mark(examples[3], (1, 2, "LOC"))
    potentials = make_potentials(rng, [3, 1, 0, 2], len(pipe.tags))
    loss, gradient = pipe.get_loss(examples, potentials)
    total = 0.0
    moves = numpy.zeros_like(potentials.transitions)
    for doc, rows in ((0, slice(0, 3)), (3, slice(4, 6))):
        alone = type(potentials)(potentials.emissions[rows], numpy.array([len(words[doc])]), *potentials.arrays[1:])
        loss_alone, gradient_alone = pipe.get_loss([examples[doc]], alone)
        total += loss_alone
        moves += gradient_alone.transitions
        numpy.testing.assert_allclose(gradient.emissions[rows], gradient_alone.emissions / 4, atol=1e-6)
    assert loss == pytest.approx(total / 4)
    numpy.testing.assert_allclose(gradient.transitions, moves / 4, atol=1e-6)


def test_many_spans_are_computed_in_portions(monkeypatch):
    words = ["a", "b", "c", "d"]
    spans = [(i, j, label) for i in range(4) for j in range(i + 1, 5) for label in LABELS]
    example = mark(make_example(words), *spans)
    pipe = make_negative_pipe("BIO")
    potentials = make_potentials(numpy.random.default_rng(0), [4], len(pipe.tags))
    whole = pipe.get_loss([example], potentials)
    monkeypatch.setattr("spacy_bilstm_crf.objectives._MAX_CELLS", 50)
    parts = pipe.get_loss([example], potentials)
    assert whole[0] == pytest.approx(parts[0])
    numpy.testing.assert_allclose(whole[1].emissions, parts[1].emissions, atol=1e-6)
    numpy.testing.assert_allclose(whole[1].transitions, parts[1].transitions, atol=1e-6)


@pytest.mark.parametrize("label", ["", "UNKNOWN"])
def test_empty_and_unknown_labels_say_nothing(label):
    example = make_example(["a", "b"], {"ents": ["B-PER", "O"]})
    pipe = make_negative_pipe()
    potentials = make_potentials(numpy.random.default_rng(0), [2], len(pipe.tags))
    loss, _ = pipe.get_loss([example], potentials)
    assert pipe.get_loss([mark(example, (0, 2, label))], potentials)[0] == loss


def test_a_span_counts_once():
    pipe = make_negative_pipe()
    potentials = make_potentials(numpy.random.default_rng(0), [2], len(pipe.tags))
    once, twice = (pipe.get_loss([mark(make_example(["a", "b"]), *[(0, 1, "PER")] * n)], potentials)[0] for n in (1, 2))
    assert once == twice > 0


def test_without_the_key_the_spans_say_nothing():
    example = mark(make_example(["a"], {"ents": ["B-PER"]}), (0, 1, "PER"))
    pipe = make_pipe("BIOES", LABELS)
    loss, _ = pipe.get_loss([example], make_potentials(numpy.random.default_rng(0), [1], len(pipe.tags)))
    assert loss > 0


def test_a_span_that_is_also_an_entity_is_refused():
    example = mark(make_example(["a", "b"], {"ents": ["B-PER", "O"]}), (0, 1, "PER"))
    pipe = make_negative_pipe()
    with pytest.raises(ValueError, match="CRF310"):
        pipe.get_loss([example], make_potentials(numpy.random.default_rng(0), [2], len(pipe.tags)))


def test_spans_are_aligned_and_what_does_not_fall_on_tokens_is_left_out():
    predicted = Doc(VOCAB, words=["ab", "c"], spaces=[True, False])
    reference = Doc(VOCAB, words=["a", "b", "c"], spaces=[False, True, False])
    example = mark(Example(predicted, reference), (0, 2, "PER"), (1, 3, "LOC"))
    pipe = make_negative_pipe()
    none = [False, False]
    assert_equals_enumeration(pipe, example, 0, [(0, 1, "PER")], lambda *_: True, none, [True, False])


def test_training_unlearns_a_span(nlp):
    pipe = nlp.add_pipe("ner_crf", config={"incorrect_spans_key": "incorrect"})
    text = "Anna Kaya moved to Lisbon"
    gold = Example.from_dict(nlp.make_doc(text), {"entities": [(0, 9, "PERSON"), (19, 25, "GPE")]})
    optimizer = nlp.initialize(lambda: [gold])
    for _ in range(40):
        nlp.update([gold], sgd=optimizer)
    assert [(ent.text, ent.label_) for ent in nlp(text).ents] == [("Anna Kaya", "PERSON"), ("Lisbon", "GPE")]
    reference = nlp.make_doc(text)
    reference.spans["incorrect"] = [Span(reference, 4, 5, label="GPE")]
    for _ in range(40):
        nlp.update([Example(nlp.make_doc(text), reference)], sgd=optimizer)
    assert (4, 5, "GPE") not in {(ent.start, ent.end, ent.label_) for ent in nlp(text).ents}
    assert pipe.cfg["incorrect_spans_key"] == "incorrect"


@pytest.mark.parametrize("label", ["", "UNKNOWN"])
def test_the_same_labels_say_nothing_to_the_ner_of_spacy(label):
    spacy.util.fix_random_seed(0)
    losses = []
    for spans in ([], [(1, 2, label)]):
        nlp = spacy.blank("en")
        nlp.add_pipe("ner", config={"incorrect_spans_key": "incorrect"}).add_label("PER")
        example = make_example(["a", "b", "c"], {"ents": ["B-PER", "O", "O"]})
        spacy.util.fix_random_seed(0)
        nlp.initialize(lambda: [example])  # noqa: B023
        reference = example.reference
        reference.spans["incorrect"] = [Span(reference, *span) for span in spans]
        losses.append(nlp.update([example])["ner"])
    assert losses[0] == losses[1]
