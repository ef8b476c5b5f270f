"""Entities and blocked tokens that were set before, in every scheme."""

import itertools

import numpy
import pytest
from enumeration import VOCAB, make_pipe, make_potentials
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc, Span
from tiny_pipelines import get_ents, make_nlp

from spacy_bilstm_crf.pipeline.entity_tags import TokenColumns
from spacy_bilstm_crf.pipeline.presets import Presets
from spacy_bilstm_crf.tag_scheme import TagScheme

SCHEMES = ["BIO", "BIOES", "IO", "BMES"]
LABELS = ["A", "B"]
HASHES = [VOCAB.strings.add(label) for label in LABELS]


@st.composite
def draw_docs(draw, max_tokens=7):
    """Documents with entities (of known and unknown label), blocked, outside and missing tokens, spaces, sentences."""
    n_tokens = draw(st.integers(0, max_tokens))
    words = draw(st.lists(st.sampled_from(["w", "v", "u", " "]), min_size=n_tokens, max_size=n_tokens))
    starts = draw(st.lists(st.sampled_from([True, False, False, None]), min_size=n_tokens, max_size=n_tokens))
    doc = Doc(VOCAB, words=words, sent_starts=starts)
    spans, groups = [], {"blocked": [], "missing": [], "outside": []}
    position = 0
    while position < n_tokens:
        kind = draw(st.sampled_from(["entity", "blocked", "missing", "outside", "outside"]))
        end = draw(st.integers(position + 1, min(n_tokens, position + 3)))
        if kind == "entity":
            spans.append(Span(doc, position, end, draw(st.sampled_from([*LABELS, "UNKNOWN"]))))
        else:
            groups[kind].append(doc[position:end])
        position = end
    doc.set_ents(spans, **groups)
    return doc


def run(doc, scheme, potentials, **settings):
    doc = doc.copy()
    pipe = make_pipe(scheme, LABELS, potentials=potentials, **settings)
    pipe.set_annotations([doc], pipe.predict([doc]))
    return doc


def draw_potentials(doc, scheme, seed, scale=2.0):
    rng = numpy.random.default_rng(seed)
    potentials = make_potentials(rng, [len(doc)], len(TagScheme(scheme).tags(LABELS)), scale=scale)
    potentials.emissions[:, 0] += (-2.0, 0.0, 2.0)[seed % 3]  # entities press against the presets, or presets hold out
    return potentials


def is_blocked(token):
    return token.ent_iob == 3 and not token.ent_type


def is_bound(doc):
    """Which tokens earlier annotation binds."""
    bound = [is_blocked(token) for token in doc]
    for ent in doc.ents:
        bound[ent.start : ent.end] = [True] * len(ent)
    return bound


def is_clean(doc, start, end):
    edges = doc[start].is_space or doc[end - 1].is_space
    return not edges and not any(doc[i].is_sent_start for i in range(start + 1, end))


@pytest.mark.parametrize("constrained", [True, False])
@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=30, deadline=None)
@given(draw_docs(), st.integers(0, 10_000))
def test_presets_stay_and_the_rest_keeps_the_rules(scheme, constrained, doc, seed):
    before, bound = get_ents(doc), is_bound(doc)
    result = run(doc, scheme, draw_potentials(doc, scheme, seed), constrained=constrained)
    assert set(before) <= set(get_ents(result))
    assert [is_blocked(token) for token in result] == [is_blocked(token) for token in doc]
    for start, end, label in set(get_ents(result)) - set(before):
        assert label in LABELS
        assert not any(bound[start:end])
        assert is_clean(doc, start, end)


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=30, deadline=None)
@given(draw_docs(), st.integers(0, 10_000))
def test_overwriting_replaces_entities_but_not_blocked_tokens(scheme, doc, seed):
    potentials = draw_potentials(doc, scheme, seed)
    result = run(doc, scheme, potentials, overwrite=True)
    # What only the blocked tokens bind.
    bare = doc.copy()
    blocked = [bare[token.i : token.i + 1] for token in doc if is_blocked(token)]
    bare.set_ents([], blocked=blocked)
    assert get_ents(result) == get_ents(run(bare, scheme, potentials))
    assert [is_blocked(token) for token in result] == [is_blocked(token) for token in doc]


def list_span_sets(free, labels, position=0):
    """All sets of spans of free tokens that do not overlap."""
    if position >= len(free):
        yield []
        return
    yield from list_span_sets(free, labels, position + 1)
    for end, label in itertools.product(range(position + 1, len(free) + 1), labels):
        if not all(free[position:end]):
            break
        for rest in list_span_sets(free, labels, end):
            yield [(position, end, label), *rest]


@pytest.mark.parametrize("scheme", ["BIOES", "BMES"])
@settings(max_examples=40, deadline=None)
@given(draw_docs(max_tokens=4), st.integers(0, 10_000))
def test_the_best_entities_around_the_presets_are_found(scheme, doc, seed):
    potentials = draw_potentials(doc, scheme, seed)
    tag_scheme = TagScheme(scheme)
    names = tag_scheme.tags(LABELS)
    known = [span for span in get_ents(doc) if span[2] in LABELS]

    def score(spans):
        # Entities of unknown label, and blocked tokens, are paths of "O".
        ids = [names.index(tag) for tag in tag_scheme.spans_to_tags([*spans, *known], len(doc))]
        emissions, transitions, starts, ends = (array.astype("float64") for array in potentials.arrays)
        total = starts[ids[0]] + ends[ids[-1]] if ids else 0.0
        total += sum(emissions[i, tag] for i, tag in enumerate(ids))
        return total + sum(transitions[a, b] for a, b in itertools.pairwise(ids))

    free = [not bound for bound in is_bound(doc)]
    sets = [s for s in list_span_sets(free, LABELS) if all(is_clean(doc, start, end) for start, end, _ in s)]
    best = max(sets, key=score)
    assert get_ents(run(doc, scheme, potentials)) == sorted([*best, *get_ents(doc)])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_tags_of_presets_are_fixed(scheme):
    doc = Doc(VOCAB, words=["w"] * 6)
    doc.set_ents([Span(doc, 0, 2, "B"), Span(doc, 3, 4, "UNKNOWN")], blocked=[doc[4:5]])
    scheme = TagScheme(scheme)
    presets = Presets.from_columns(TokenColumns.from_docs([doc]), HASHES)
    possible = presets.clamp(None, scheme, len(LABELS))
    names = numpy.array(scheme.tags(LABELS))
    fixed = [*scheme.spans_to_tags([(0, 2, "B")], 2), None, "O", "O", None]
    for tags, expected in zip(possible, fixed, strict=True):
        assert names[tags].tolist() == [expected] if expected else tags.sum() > 1
    # Behind an entity, nothing that could only continue one.
    opens, *_ = scheme.tag_rules(len(LABELS))
    assert possible[2].tolist() == opens.tolist()
    assert possible[5].all()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_is_known_to_be_outside_does_not_bind(scheme):
    doc = Doc(VOCAB, words=["w"] * 3, ents=["O", "O", "O"])
    potentials = draw_potentials(doc, scheme, 0, scale=0.0)
    assert get_ents(run(doc, scheme, potentials)), "an earlier component that found nothing would forbid everything"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_presets_outrank_white_space_and_sentences(scheme):
    doc = Doc(VOCAB, words=[" ", "w", "v", " "], sent_starts=[True, False, True, False])
    doc.ents = [Span(doc, 0, 4, "A")]
    assert get_ents(run(doc, scheme, draw_potentials(doc, scheme, 0))) == [(0, 4, "A")]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_neighbours_of_the_same_label_do_not_join_a_preset(scheme):
    doc = Doc(VOCAB, words=["w"] * 5)
    doc.ents = [Span(doc, 2, 3, "A")]
    potentials = draw_potentials(doc, scheme, 0, scale=0.0)
    for position, tag in enumerate(TagScheme(scheme).spans_to_ids([(0, 5, "A")], 5, {"A": 0})):
        potentials.emissions[position, tag] = 100.0
    found = get_ents(run(doc, scheme, potentials))
    assert (2, 3, "A") in found
    assert all(end <= 2 or start >= 3 for start, end, _ in found if (start, end) != (2, 3))


def test_identifiers_of_presets_stay():
    doc = Doc(VOCAB, words=["w"] * 3)
    doc.ents = [Span(doc, 0, 1, "A", kb_id="Q1", span_id="first")]
    result = run(doc, "BIOES", draw_potentials(doc, "BIOES", 0))
    ent = result.ents[0]
    assert (ent.kb_id_, ent.ent_id_) == ("Q1", "first")


def test_presets_do_not_bind_in_training():
    doc = Doc(VOCAB, words=["w"] * 3)
    doc.set_ents([Span(doc, 0, 1, "A")], blocked=[doc[1:2]])
    pipe = make_pipe("BIOES", LABELS)
    assert pipe.get_possible_tags([doc], is_train=True) is None
    assert pipe.get_possible_tags([doc], is_train=False) is not None


def test_presets_of_one_document_do_not_bind_another():
    bound = Doc(VOCAB, words=["w"] * 2)
    bound.set_ents([], blocked=[bound[0:2]])
    presets = Presets.from_columns(TokenColumns.from_docs([Doc(VOCAB, words=["w"]), bound, bound[:0].as_doc()]), HASHES)
    assert presets.in_docs(numpy.array([1, 2, 0])).tolist() == [False, True, False]
    possible = presets.clamp(None, TagScheme("BIOES"), len(LABELS))
    assert possible[0].all()
    assert possible[1:].sum() == 2


def test_running_twice_changes_nothing(trained_in_scheme):
    doc = trained_in_scheme("Carla Diaz left Acme Corp . Bob met Emil Holm in Oslo")
    before = get_ents(doc)
    assert before
    assert get_ents(trained_in_scheme.get_pipe("ner_crf")(doc)) == before


def test_behind_an_entity_ruler(trained_bytes):
    nlp = make_nlp().from_bytes(trained_bytes)
    text = "Anna Schmidt works at Acme Corp in Berlin ."
    nlp.add_pipe("entity_ruler", before="ner_crf").add_patterns([{"label": "ROLE", "pattern": "works"}])
    expected = [(0, 2, "PER"), (2, 3, "ROLE"), (4, 6, "ORG"), (7, 8, "LOC")]
    assert get_ents(nlp(text)) == expected
    nlp.get_pipe("entity_ruler").add_patterns([{"label": "NAME", "pattern": "Schmidt"}])
    assert (1, 2, "NAME") in get_ents(nlp(text))
    nlp.get_pipe("ner_crf").cfg["overwrite"] = True
    assert get_ents(nlp(text)) == [(0, 2, "PER"), (4, 6, "ORG"), (7, 8, "LOC")]


def test_before_an_entity_ruler(trained_bytes):
    nlp = make_nlp().from_bytes(trained_bytes)
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "ROLE", "pattern": "works"}])
    assert (2, 3, "ROLE") in get_ents(nlp("Anna Schmidt works at Acme Corp in Berlin ."))
