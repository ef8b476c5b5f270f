import functools
import warnings

import numpy
import pytest
from enumeration import SCHEMES, VOCAB, Paths, assert_loss, log_sum, make_example, make_pipe, make_potentials, posterior
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Corpus, Example

from spacy_bilstm_crf.tag_scheme import TagScheme
from spacy_bilstm_crf.types import CRFPotentials

LABELS = ["PER", "LOC"]
paths_of = functools.cache(lambda scheme, n_tokens, constrained=True: Paths(scheme, LABELS, n_tokens, constrained))


def assert_equals_enumeration(pipe, example, seed, consistent, possible=lambda tags, spans: True):
    """The loss is log Z of what is possible minus log Z of what is consistent with the annotation."""
    n_tokens = len(example.predicted)
    paths = paths_of(pipe.tag_scheme.name, n_tokens, pipe.allowed_transitions is not None)
    potentials = make_potentials(numpy.random.default_rng(seed), [n_tokens], len(paths.tags))
    scores = paths.scores(potentials)
    is_possible = paths.select(possible)
    is_allowed = is_possible & paths.select(consistent)
    expected = log_sum(scores[is_possible]) - log_sum(scores[is_allowed])
    difference = posterior(scores, is_possible) - posterior(scores, is_allowed)
    assert_loss(pipe, example, potentials, expected, paths.expected_counts(potentials, difference))


@st.composite
def partial_docs(draw, max_tokens=4):
    """Entities, and which tokens are missing."""
    n_tokens = draw(st.integers(1, max_tokens))
    known = draw(st.lists(st.booleans(), min_size=n_tokens, max_size=n_tokens))
    entities, i = [], 0
    while i < n_tokens:
        end = draw(st.integers(i, n_tokens))
        if end > i and all(known[i:end]):
            entities.append((i, end, draw(st.sampled_from(LABELS))))
        i = max(end, i + 1)
    return n_tokens, known, entities


def make_reference(words, known, entities):
    doc = Doc(VOCAB, words=words)
    missing = [Span(doc, i, i + 1) for i, is_known in enumerate(known) if not is_known]
    doc.set_ents([Span(doc, *entity) for entity in entities], missing=missing)
    return doc


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("constrained", [True, False])
@settings(max_examples=40, deadline=None)
@given(partial_docs(max_tokens=3), st.integers(0, 1000))
def test_partial_entities_equal_enumeration(scheme, constrained, drawn, seed):
    n_tokens, known, entities = drawn
    words = [f"w{i}" for i in range(n_tokens)]
    example = Example(Doc(VOCAB, words=words), make_reference(words, known, entities))
    gold = TagScheme(scheme).spans_to_tags(entities, n_tokens)
    covered = {i for start, end, _ in entities for i in range(start, end)}

    def consistent(tags, spans):
        return all(tag == gold[i] for i, tag in enumerate(tags) if known[i] or i in covered)

    assert_equals_enumeration(make_pipe(scheme, LABELS, constrained=constrained), example, seed, consistent)


@st.composite
def partial_tags(draw, max_tokens=3):
    """Tags of a random path in a random scheme, some of them unknown."""
    n_tokens = draw(st.integers(1, max_tokens))
    source = draw(st.sampled_from(SCHEMES))
    paths = paths_of(source, n_tokens).paths
    tags = list(paths[draw(st.integers(0, len(paths) - 1))])
    return source, [tag if draw(st.booleans()) else None for tag in tags]


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=120, deadline=None)
@given(partial_tags(), st.integers(0, 1000))
def test_single_tags_of_any_scheme_equal_enumeration(scheme, drawn, seed):
    source, tags = drawn
    words = [f"w{i}" for i in range(len(tags))]
    example = make_example(words, {"user_data": {"crf_tags": tags, "crf_tag_scheme": source}})
    spell = TagScheme(source).spans_to_tags

    def consistent(path, spans):
        spelt = spell(spans, len(path))
        return all(tag in (None, other) for tag, other in zip(tags, spelt, strict=True))

    pipe = make_pipe(scheme, LABELS)
    assume(paths_of(scheme, len(tags)).select(consistent).any())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_equals_enumeration(pipe, example, seed, consistent)
    assert pipe.n_unusable_tags == 0


def test_a_known_tag_is_exactly_that_tag():
    example = make_example(["a", "b", "c"], {"user_data": {"crf_tags": ["B-PER", None, None]}})
    assert_equals_enumeration(make_pipe("BIOES", LABELS), example, 0, lambda tags, spans: tags[0] == "B-PER")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("constrained", [True, False])
@pytest.mark.parametrize(
    "reference",
    [{}, {"user_data": {"crf_tags": [None] * 3}}, {"ents": ["O", "O", "O"], "user_data": {"crf_labels": []}}],
)
def test_nothing_annotated_gives_exactly_nothing(scheme, constrained, reference):
    words = ["a", " ", "c"]
    reference = dict(reference)
    user_data = reference.pop("user_data", {})
    example = make_example(words, reference, {"sent_starts": [True, False, True]})
    example.reference.user_data.update(user_data)
    pipe = make_pipe(scheme, LABELS, constrained=constrained)
    potentials = make_potentials(numpy.random.default_rng(0), [3], len(pipe.tags), scale=50.0)
    if user_data.get("crf_labels") == []:
        # No label was annotated, so "O" rules nothing out.
        assert example.reference.has_annotation("ENT_IOB")
    loss, gradient = pipe.get_loss([example], potentials)
    assert loss == 0.0
    assert all((array == 0.0).all() for array in gradient.arrays)


def test_unannotated_documents_do_not_touch_their_batch():
    pipe = make_pipe("BIOES", LABELS)
    known = make_example(["a", "b"], {"ents": ["B-PER", "O"]})
    unknown = make_example(["c", "d", "e"])
    potentials = make_potentials(numpy.random.default_rng(0), [2, 3], len(pipe.tags))
    alone = CRFPotentials(potentials.emissions[:2], numpy.array([2]), *potentials.arrays[1:])
    loss, gradient = pipe.get_loss([known, unknown], potentials)
    loss_alone, gradient_alone = pipe.get_loss([known], alone)
    assert loss == pytest.approx(loss_alone / 2)
    numpy.testing.assert_allclose(gradient.transitions, gradient_alone.transitions / 2, atol=1e-7)
    assert (gradient.emissions[2:] == 0).all()


@pytest.mark.parametrize("scheme", ["BIO", "BIOES"])
def test_labels_that_were_not_annotated_are_unknown_at_o(scheme):
    reference = {"ents": ["O", "B-PER", "I-PER", "O"], "user_data": {"crf_labels": ["PER"]}}
    example = make_example(["a", "b", "c", "d"], reference)

    def consistent(tags, spans):
        return [span for span in spans if span[2] == "PER"] == [(1, 3, "PER")]

    assert_equals_enumeration(make_pipe(scheme, LABELS), example, 1, consistent)


def test_an_entity_counts_though_its_label_was_not_annotated():
    reference = {"ents": ["O", "B-LOC", "O"], "user_data": {"crf_labels": ["PER"]}}

    def consistent(tags, spans):
        return (1, 2, "LOC") in spans and not any(label == "PER" for _, _, label in spans)

    assert_equals_enumeration(make_pipe("BIOES", LABELS), make_example(["a", "b", "c"], reference), 2, consistent)


def test_label_sets_and_single_tags_go_together():
    reference = {"user_data": {"crf_tags": ["O", None, "S-PER"], "crf_labels": ["PER"]}}

    def consistent(tags, spans):
        return (tags[0] == "O" or tags[0].endswith("LOC")) and tags[2] == "S-PER"

    assert_equals_enumeration(make_pipe("BIOES", LABELS), make_example(["a", "b", "c"], reference), 3, consistent)


def test_blocked_tokens_of_a_reference_are_in_no_entity_of_any_label():
    example = make_example(["a", "b"], {"user_data": {"crf_labels": ["PER"]}})
    example.reference.set_ents([], blocked=[example.reference[0:1]], missing=[example.reference[1:2]])
    assert_equals_enumeration(make_pipe("BIOES", LABELS), example, 4, lambda tags, spans: tags[0] == "O")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_unaligned_entity_is_unknown(scheme):
    # "b-c" is one token here and three there; of the entity "a b" only a part falls on tokens.
    predicted = Doc(VOCAB, words=["a", "b-c", "d"], spaces=[True, True, False])
    reference = Doc(
        VOCAB,
        words=["a", "b", "-", "c", "d"],
        spaces=[True, False, False, True, False],
        ents=["B-PER", "I-PER", "O", "O", "B-LOC"],
    )
    gold = TagScheme(scheme).spans_to_tags([(2, 3, "LOC")], 3)
    assert_equals_enumeration(
        make_pipe(scheme, LABELS), Example(predicted, reference), 5, lambda tags, spans: tags[2] == gold[2]
    )


def test_unaligned_single_tags_are_unknown_unless_all_are_outside():
    predicted = Doc(VOCAB, words=["ab", "cd", "e"], spaces=[True, True, False])
    reference = Doc(VOCAB, words=["a", "b", "c", "d", "e"], spaces=[False, True, False, True, False])
    reference.user_data["crf_tags"] = ["B-PER", "E-PER", "O", "O", "S-LOC"]

    def consistent(tags, spans):
        return tags[1] == "O" and tags[2] == "S-LOC"

    assert_equals_enumeration(make_pipe("BIOES", LABELS), Example(predicted, reference), 6, consistent)


def test_blocked_tokens_stay_outside_when_tokens_differ():
    predicted = Doc(VOCAB, words=["ab", "c"], spaces=[True, False])
    reference = Doc(VOCAB, words=["a", "b", "c"], spaces=[False, True, False])
    reference.set_ents([], blocked=[reference[2:3]], default="missing")
    assert_equals_enumeration(
        make_pipe("BIOES", LABELS), Example(predicted, reference), 7, lambda tags, spans: tags[1] == "O"
    )


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("words", "sent_starts", "entity"),
    [
        (["a", " ", "b"], None, (0, 2, "PER")),
        (["a", " ", "b"], None, (1, 3, "PER")),
        (["a", " ", "b"], None, (1, 2, "PER")),
        (["a", "b", "c"], [True, False, True], (0, 3, "PER")),
        (["a", "b", "c"], None, (0, 2, "OTHER")),
    ],
)
def test_gold_that_cannot_be_is_unknown_and_said_once(scheme, words, sent_starts, entity):
    reference = Doc(VOCAB, words=words)
    reference.set_ents([Span(reference, *entity)], default="outside")
    example = Example(Doc(VOCAB, words=words, sent_starts=sent_starts), reference)
    pipe = make_pipe(scheme, LABELS)
    potentials = make_potentials(numpy.random.default_rng(0), [3], len(pipe.tags))
    with pytest.warns(UserWarning, match="CRF350"):
        _, gradient = pipe.get_loss([example], potentials)
    outside = [i for i in range(3) if not entity[0] <= i < entity[1]]
    assert (gradient.emissions[outside] != 0).any() == bool(outside)
    assert pipe.n_unusable_entities == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipe.get_loss([example], potentials)
    assert pipe.n_unusable_entities == 2


@pytest.mark.parametrize(
    ("tags", "n_unusable", "consistent"),
    [
        # An orphan: the path ends there, and the rest still counts.
        (["O", "I-PER", "O"], 1, lambda tags, spans: tags[0] == tags[2] == "O"),
        (["B-PER", "O", "S-LOC"], 1, lambda tags, spans: tags[0] == "B-PER" and tags[2] == "S-LOC"),
        (["O", "O", "B-PER"], 1, lambda tags, spans: tags[0] == tags[1] == "O"),
        (["S-OTHER", None, "O"], 1, lambda tags, spans: tags[2] == "O"),
    ],
)
def test_single_tags_that_no_path_has_are_unknown_and_said_once(tags, n_unusable, consistent):
    example = make_example(["a", "b", "c"], {"user_data": {"crf_tags": tags}})
    pipe = make_pipe("BIOES", LABELS)
    with pytest.warns(UserWarning, match="CRF351"):
        assert_equals_enumeration(pipe, example, 8, consistent)
    assert pipe.n_unusable_tags == n_unusable
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipe.get_loss([example], make_potentials(numpy.random.default_rng(0), [3], len(pipe.tags)))


def test_contradictions_before_a_forced_end_open_the_whole_document():
    # On white space no entity ends, so that no path leads on from B-PER.
    example = make_example(["a", " "], {"user_data": {"crf_tags": ["B-PER", None]}})
    pipe = make_pipe("BIOES", LABELS)
    with pytest.warns(UserWarning, match="CRF351"):
        loss, _ = pipe.get_loss([example], make_potentials(numpy.random.default_rng(0), [2], len(pipe.tags)))
    assert loss == 0.0


@pytest.mark.parametrize("tags", ["BIO", ["O"], ["O", "O", 3], {"a": "O"}, ["O"] * 4])
def test_single_tags_of_another_form_are_refused(tags):
    example = make_example(["a", "b", "c"], {"user_data": {"crf_tags": tags}})
    pipe = make_pipe("BIOES", LABELS)
    with pytest.raises(ValueError, match="CRF311"):
        pipe.get_loss([example], make_potentials(numpy.random.default_rng(0), [3], len(pipe.tags)))


@pytest.mark.parametrize(
    ("key", "value", "code"), [("crf_tags", ["X-PER"], "CRF005"), ("crf_tag_scheme", "ABC", "CRF001")]
)
def test_tags_and_schemes_that_do_not_exist_are_refused(key, value, code):
    example = make_example(["a"], {"user_data": {"crf_tags": ["O"], key: value}})
    pipe = make_pipe("BIOES", LABELS)
    with pytest.raises(ValueError, match=code):
        pipe.get_loss([example], make_potentials(numpy.random.default_rng(0), [1], len(pipe.tags)))


@pytest.mark.parametrize("labels", ["PER", [1]])
def test_label_sets_of_another_form_are_refused(labels):
    example = make_example(["a"], {"ents": ["O"], "user_data": {"crf_labels": labels}})
    pipe = make_pipe("BIOES", LABELS)
    with pytest.raises(ValueError, match="CRF312"):
        pipe.get_loss([example], make_potentials(numpy.random.default_rng(0), [1], len(pipe.tags)))


def test_labels_are_found_in_entities_and_single_tags(nlp):
    pipe = nlp.add_pipe("ner_crf")
    examples = [
        make_example(["a", "b"], {"ents": ["B-LOC", "O"]}),
        make_example(["a", "b"], {"user_data": {"crf_tags": ["I-PER", None]}}),
    ]
    nlp.initialize(lambda: examples)
    assert pipe.labels == ("LOC", "PER")


def test_single_tags_and_label_sets_reach_training_through_files(nlp, tmp_path):
    doc = Doc(nlp.vocab, words=["a", "b"], user_data={"crf_tags": ["B-PER", None], "crf_labels": ["PER"]})
    path = tmp_path / "train.spacy"
    DocBin(store_user_data=True, docs=[doc]).to_disk(path)
    (example,) = Corpus(path)(nlp)
    assert list(example.reference.user_data["crf_tags"]) == ["B-PER", None]
    pipe = make_pipe("BIOES", LABELS)
    potentials = make_potentials(numpy.random.default_rng(0), [2], len(pipe.tags))
    here = Example(Doc(nlp.vocab, words=["a", "b"]), doc)
    losses = [pipe.get_loss([each], potentials)[0] for each in (here, example)]
    assert losses[0] == losses[1] > 0
