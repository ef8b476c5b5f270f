"""White space and sentence starts, in every scheme, against enumeration of everything that could be found."""

import itertools

import numpy
import pytest
from enumeration import VOCAB, make_pipe, make_potentials
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc, Span
from tiny_pipelines import get_ents

from spacy_bilstm_crf.pipeline.entity_tags import (
    Entities,
    TokenColumns,
    doc_starts,
    entity_tags,
    find_labels,
    read_entities,
    structural_tags,
    trim_entities,
)
from spacy_bilstm_crf.tag_scheme import TagScheme

SCHEMES = ["BIO", "BIOES", "IO", "BMES"]
LABELS = ["A", "B"]
HASHES = [VOCAB.strings.add(label) for label in LABELS]


@st.composite
def draw_docs(draw, max_tokens=6):
    """Words, white space, and sentence starts: set, denied or not known."""
    n_tokens = draw(st.integers(0, max_tokens))
    words = draw(st.lists(st.sampled_from(["w", "v", " ", "\n"]), min_size=n_tokens, max_size=n_tokens))
    starts = draw(st.lists(st.sampled_from([True, False, None]), min_size=n_tokens, max_size=n_tokens))
    return Doc(VOCAB, words=words, sent_starts=starts)


def list_span_sets(n_tokens, labels, position=0):
    """All sets of spans that do not overlap."""
    if position >= n_tokens:
        yield []
        return
    yield from list_span_sets(n_tokens, labels, position + 1)
    for end, label in itertools.product(range(position + 1, n_tokens + 1), labels):
        for rest in list_span_sets(n_tokens, labels, end):
            yield [(position, end, label), *rest]


def is_clean(doc, span):
    """No white space at the edges, no sentence start inside."""
    start, end, _ = span
    edges = doc[start].is_space or doc[end - 1].is_space
    return not edges and not any(doc[i].is_sent_start for i in range(start + 1, end))


def score_tags(tags, scheme, potentials):
    ids = [scheme.tags(LABELS).index(tag) for tag in tags]
    emissions, transitions, starts, ends = (array.astype("float64") for array in potentials.arrays)
    if not ids:
        return 0.0
    score = starts[ids[0]] + ends[ids[-1]] + sum(emissions[i, tag] for i, tag in enumerate(ids))
    return score + sum(transitions[a, b] for a, b in itertools.pairwise(ids))


def find_by_enumeration(doc, name, potentials):
    """What rules of entities, not of tags, say is best."""
    scheme = TagScheme(name)
    if name in ("BIOES", "BMES"):
        # Every set of clean spans has one path, and no other path does.
        sets = [spans for spans in list_span_sets(len(doc), LABELS) if all(is_clean(doc, span) for span in spans)]
        return max(sets, key=lambda spans: score_tags(scheme.spans_to_tags(spans, len(doc)), scheme, potentials))
    if name == "BIO":
        # "B" is seen to open, so openings are ruled. Ends are not seen: what ends on white space is trimmed.
        def is_open_clean(span):
            start, end, _ = span
            return not doc[start].is_space and not any(doc[i].is_sent_start for i in range(start + 1, end))

        sets = [spans for spans in list_span_sets(len(doc), LABELS) if all(map(is_open_clean, spans))]
        best = max(sets, key=lambda spans: score_tags(scheme.spans_to_tags(spans, len(doc)), scheme, potentials))
        return trim(doc, best)
    # "I" says nothing of borders: the best path of all, cut at sentence starts and trimmed.
    paths = itertools.product(scheme.tags(LABELS), repeat=len(doc))
    best = max(paths, key=lambda tags: score_tags(tags, scheme, potentials))
    pieces, start = [], 0
    borders = [i for i in range(1, len(doc)) if doc[i].is_sent_start] + [len(doc)]
    for border in borders:
        pieces += [(start + a, start + b, label) for a, b, label in scheme.tags_to_spans(best[start:border])]
        start = border
    return trim(doc, pieces)


def trim(doc, spans):
    trimmed = []
    for start, end, label in spans:
        while start < end and doc[start].is_space:
            start += 1
        while start < end and doc[end - 1].is_space:
            end -= 1
        if start < end:
            trimmed.append((start, end, label))
    return trimmed


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=40, deadline=None)
@given(draw_docs(max_tokens=4), st.integers(0, 10_000))
def test_the_best_entities_that_rules_allow_are_found(scheme, doc, seed):
    rng = numpy.random.default_rng(seed)
    potentials = make_potentials(rng, [len(doc)], len(TagScheme(scheme).tags(LABELS)), scale=2.0)
    # Little of "O": entities then press against the rules.
    potentials.emissions[:, 0] -= 2.0
    doc = doc.copy()
    pipe = make_pipe(scheme, LABELS, potentials=potentials)
    pipe.set_annotations([doc], pipe.predict([doc]))
    assert get_ents(doc) == find_by_enumeration(doc, scheme, potentials)


@pytest.mark.parametrize("constrained", [True, False])
@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=25, deadline=None)
@given(st.lists(draw_docs(max_tokens=12), min_size=1, max_size=4), st.integers(0, 10_000))
def test_no_entity_breaks_the_rules(scheme, constrained, docs, seed):
    docs = [doc.copy() for doc in docs]
    rng = numpy.random.default_rng(seed)
    n_tags = len(TagScheme(scheme).tags(LABELS))
    potentials = make_potentials(rng, [len(doc) for doc in docs], n_tags, scale=3.0)
    potentials.emissions[:, 0] -= 3.0
    pipe = make_pipe(scheme, LABELS, potentials=potentials, constrained=constrained)
    pipe.set_annotations(docs, pipe.predict(docs))
    assert all(is_clean(doc, span) for doc in docs for span in get_ents(doc))


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=40, deadline=None)
@given(draw_docs(), st.integers(0, 10_000))
def test_clean_gold_is_always_possible(scheme, doc, seed):
    sets = [s for s in list_span_sets(min(len(doc), 4), LABELS) if all(is_clean(doc, span) for span in s)]
    spans = sets[seed % len(sets)]
    scheme = TagScheme(scheme)
    possible = structural_tags(TokenColumns.from_docs([doc]), scheme, len(LABELS))
    if possible is None:
        return
    ids = scheme.spans_to_ids(spans, len(doc), {label: i for i, label in enumerate(LABELS)})
    assert possible[numpy.arange(len(doc)), ids].all()
    assert possible[:, 0].all(), "O is possible everywhere"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_nothing_is_ruled_out_without_white_space_and_sentences(scheme):
    docs = [Doc(VOCAB, words=["a", "b"]), Doc(VOCAB, words=[])]
    assert structural_tags(TokenColumns.from_docs(docs), TagScheme(scheme), len(LABELS)) is None
    # The start of a document is no start that could be crossed.
    docs = [Doc(VOCAB, words=["a", "b"], sent_starts=[True, False])] * 2
    assert structural_tags(TokenColumns.from_docs(docs), TagScheme(scheme), len(LABELS)) is None


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [("BIO", ["O", "I-A"]), ("BIOES", ["O", "I-A"]), ("BMES", ["O", "M-A"]), ("IO", ["O", "I-A"])],
)
def test_tags_of_white_space(scheme, expected):
    scheme = TagScheme(scheme)
    possible = structural_tags(TokenColumns.from_docs([Doc(VOCAB, words=["a", " ", "b"])]), scheme, 1)
    assert [tag for tag, is_possible in zip(scheme.tags(["A"]), possible[1], strict=True) if is_possible] == expected
    assert possible[[0, 2]].all()


@pytest.mark.parametrize(
    ("scheme", "before", "after"),
    [
        ("BIO", ["O", "B-A", "I-A"], ["O", "B-A"]),
        ("BIOES", ["O", "E-A", "S-A"], ["O", "B-A", "S-A"]),
        ("BMES", ["O", "E-A", "S-A"], ["O", "B-A", "S-A"]),
        ("IO", ["O", "I-A"], ["O", "I-A"]),
    ],
)
def test_tags_around_a_sentence_start(scheme, before, after):
    scheme = TagScheme(scheme)
    doc = Doc(VOCAB, words=["a", "b", "c", "d"], sent_starts=[True, False, True, False])
    possible = structural_tags(TokenColumns.from_docs([doc]), scheme, 1)
    names = numpy.array(scheme.tags(["A"]) if possible is not None else [])
    if scheme.name == "IO":
        assert possible is None or possible.all()
        return
    assert names[possible[1]].tolist() == before
    assert names[possible[2]].tolist() == after
    assert possible[[0, 3]].all()


# Reading Docs


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_entities_come_back_from_docs(data):
    docs, expected = [], []
    offset = 0
    for _ in range(data.draw(st.integers(0, 4))):
        n_tokens = data.draw(st.integers(0, 4))
        spans = data.draw(st.sampled_from(list(list_span_sets(n_tokens, ["A", "B", "UNKNOWN"]))))
        doc = Doc(VOCAB, words=["w"] * n_tokens)
        doc.ents = [Span(doc, start, end, label) for start, end, label in spans]
        docs.append(doc)
        expected += [(offset + start, offset + end, (*LABELS, "UNKNOWN").index(label)) for start, end, label in spans]
        offset += n_tokens
    entities = read_entities(TokenColumns.from_docs(docs), HASHES)
    received = zip(entities.starts.tolist(), entities.ends.tolist(), entities.labels.tolist(), strict=True)
    assert list(received) == [(start, end, -1 if label == 2 else label) for start, end, label in expected]


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_entities_become_the_tags_of_the_scheme(scheme, data):
    scheme = TagScheme(scheme)
    spans = data.draw(st.sampled_from(list(list_span_sets(4, LABELS))))
    columns = [(start, end, LABELS.index(label)) for start, end, label in spans]
    entities = Entities(*numpy.array(columns, dtype="int64").reshape(-1, 3).T)
    tags = numpy.zeros(4, dtype="int64")
    rows, ids = entity_tags(entities, scheme)
    tags[rows] = ids
    assert tags.tolist() == scheme.spans_to_ids(spans, 4, {label: i for i, label in enumerate(LABELS)}).tolist()


def test_columns_of_docs():
    doc = Doc(VOCAB, words=["a", " ", "b", "c", "d"], ents=["B-A", "I-A", "O", "", ""], sent_starts=[1, 0, 1, 0, 0])
    doc.set_ents([doc.ents[0]], blocked=[doc[3:4]], missing=[doc[4:5]], default="outside")
    columns = TokenColumns.from_docs([doc, Doc(VOCAB, words=[]), Doc(VOCAB, words=["e"])])
    assert columns.lengths.tolist() == [5, 0, 1]
    assert columns.ent_iob.tolist() == [3, 1, 2, 3, 0, 0]
    assert columns.ent_type.tolist() == [HASHES[0], HASHES[0], 0, 0, 0, 0]
    assert columns.is_space.tolist() == [False, True, False, False, False, False]
    assert columns.is_sent_start.tolist() == [True, False, True, False, False, True]
    assert columns.is_doc_start.tolist() == [True, False, False, False, False, True]


def test_no_docs_have_columns_too():
    columns = TokenColumns.from_docs([])
    assert len(columns.lengths) == len(columns.ent_iob) == 0
    assert len(read_entities(columns, HASHES)) == 0


def test_labels_are_found_by_hash():
    hashes = numpy.array([HASHES[1], 5, HASHES[0], HASHES[1]], dtype="uint64")
    assert find_labels(hashes, HASHES).tolist() == [1, -1, 0, 1]
    assert find_labels(hashes, []).tolist() == [-1] * 4
    assert find_labels(hashes[:0], HASHES).tolist() == []


def test_documents_without_tokens_have_no_start():
    assert doc_starts(numpy.array([0, 2, 0, 3, 0])).tolist() == [0, 2]


def test_trimming_leaves_what_is_no_white_space():
    doc = Doc(VOCAB, words=[" ", "a", " ", "b", " ", " "])
    columns = TokenColumns.from_docs([doc])
    entities = Entities(*(numpy.array(column) for column in ([0, 4], [4, 6], [0, 1])))
    trimmed = trim_entities(entities, columns)
    assert (trimmed.starts.tolist(), trimmed.ends.tolist(), trimmed.labels.tolist()) == ([1], [4], [0])
