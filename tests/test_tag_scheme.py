"""Tag schemes: the whole set of legal moves, round trips, repair, and agreement with spaCy."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spacy.training.iob_utils import biluo_to_iob, iob_to_biluo, tags_to_entities

from spacy_bilstm_crf.tag_scheme import TagScheme, check_label, convert_tags

LABELS = ["X", "Y"]
SCHEMES = [TagScheme("BIO"), TagScheme("BIOES"), TagScheme("IO"), TagScheme("BMES"), TagScheme("BMES", outside=False)]
SCHEMES += [TagScheme("BIO", outside=False), TagScheme("BIOES", outside=False), TagScheme("IO", outside=False)]

# From each tag, the tags that may follow. "^" is the start and "$" the end of the document.
ALLOWED = {
    ("BIO", True): {
        "^": "O B-X B-Y $",
        "O": "O B-X B-Y $",
        "B-X": "O B-X I-X B-Y $",
        "I-X": "O B-X I-X B-Y $",
        "B-Y": "O B-X B-Y I-Y $",
        "I-Y": "O B-X B-Y I-Y $",
    },
    ("BIOES", True): {
        "^": "O B-X S-X B-Y S-Y $",
        "O": "O B-X S-X B-Y S-Y $",
        "B-X": "I-X E-X",
        "I-X": "I-X E-X",
        "E-X": "O B-X S-X B-Y S-Y $",
        "S-X": "O B-X S-X B-Y S-Y $",
        "B-Y": "I-Y E-Y",
        "I-Y": "I-Y E-Y",
        "E-Y": "O B-X S-X B-Y S-Y $",
        "S-Y": "O B-X S-X B-Y S-Y $",
    },
    ("IO", True): {
        "^": "O I-X I-Y $",
        "O": "O I-X I-Y $",
        "I-X": "O I-X I-Y $",
        "I-Y": "O I-X I-Y $",
    },
    ("BMES", True): {
        "^": "O B-X S-X B-Y S-Y $",
        "O": "O B-X S-X B-Y S-Y $",
        "B-X": "M-X E-X",
        "M-X": "M-X E-X",
        "E-X": "O B-X S-X B-Y S-Y $",
        "S-X": "O B-X S-X B-Y S-Y $",
        "B-Y": "M-Y E-Y",
        "M-Y": "M-Y E-Y",
        "E-Y": "O B-X S-X B-Y S-Y $",
        "S-Y": "O B-X S-X B-Y S-Y $",
    },
    ("BMES", False): {
        "^": "B-X S-X B-Y S-Y $",
        "B-X": "M-X E-X",
        "M-X": "M-X E-X",
        "E-X": "B-X S-X B-Y S-Y $",
        "S-X": "B-X S-X B-Y S-Y $",
        "B-Y": "M-Y E-Y",
        "M-Y": "M-Y E-Y",
        "E-Y": "B-X S-X B-Y S-Y $",
        "S-Y": "B-X S-X B-Y S-Y $",
    },
}


def ids_of(scheme, tags, labels=LABELS):
    index = {tag: i for i, tag in enumerate(scheme.tags(labels))}
    return np.array([index[tag] for tag in tags], dtype=np.int64)


@st.composite
def spans_and_length(draw, full=False):
    """Non-overlapping spans of a document; `full`: they cover every token."""
    widths = draw(st.lists(st.integers(1, 5), max_size=8))
    spans, start = [], 0
    for width in widths:
        label = draw(st.sampled_from(LABELS if full else [*LABELS, None]))
        if label:
            spans.append((start, start + width, label))
        start += width
    return spans, start


def merge_adjacent(spans):
    merged = []
    for start, end, label in spans:
        if merged and merged[-1][1:] == (start, label):
            merged[-1] = (merged[-1][0], end, label)
        else:
            merged.append((start, end, label))
    return merged


@pytest.mark.parametrize(("name", "outside"), ALLOWED)
def test_allowed_transitions_whole_set(name, outside):
    scheme = TagScheme(name, outside=outside)
    transitions, starts, ends = scheme.allowed_transitions(LABELS)
    tags = scheme.tags(LABELS)
    found = {"^": {tag for tag, legal in zip(tags, starts, strict=True) if legal} | {"$"}}
    for tag, row, end in zip(tags, transitions, ends, strict=True):
        found[tag] = {to for to, legal in zip(tags, row, strict=True) if legal} | ({"$"} if end else set())
    assert found == {tag: set(to.split()) for tag, to in ALLOWED[name, outside].items()}
    for before, after in found.items():
        where = None if before == "^" else before
        assert after == {tag or "$" for tag in [*tags, None] if scheme.allows(where, tag)}
    assert transitions.dtype == starts.dtype == ends.dtype == bool


def test_segmenter_tags_are_bare():
    scheme = TagScheme("BMES", outside=False)
    assert scheme.tags([""]) == ["B", "M", "E", "S"]
    assert scheme.spans_to_tags([(0, 1, ""), (1, 3, ""), (3, 6, "")], 6) == ["S", "B", "E", "B", "M", "E"]
    assert scheme.tags_to_spans(["S", "B", "E", "B", "M", "E"]) == [(0, 1, ""), (1, 3, ""), (3, 6, "")]


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_a_new_label_only_appends_tags(scheme):
    assert scheme.tags([*LABELS, "Z"])[: len(scheme.tags(LABELS))] == scheme.tags(LABELS)
    assert scheme.tags(LABELS)[0] == ("O" if scheme.outside else f"{scheme.prefixes[0]}-X")


def test_names():
    assert TagScheme("biluo") == TagScheme("BIOES") == TagScheme("IOBES")
    assert TagScheme("BILUO").name == "BIOES"
    assert TagScheme("iob2") == TagScheme("BIO")
    assert len({TagScheme("BIO"), TagScheme("bio"), TagScheme("BIO", outside=False)}) == 2


@pytest.mark.parametrize("name", ["BIOS", "", None, 3])
def test_unknown_scheme(name):
    with pytest.raises(ValueError, match=r"CRF001.*BIO, BIOES, IO, BMES"):
        TagScheme(name)


def test_split():
    assert TagScheme("BIO").split("B-creative-work") == ("B", "creative-work")
    assert TagScheme("BIOES").split("L-X") == ("E", "X")
    assert TagScheme("BIOES").split("U-X") == ("S", "X")
    assert TagScheme("BIO").split("O") == ("O", "")
    assert TagScheme("BMES").split("M") == ("M", "")


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@pytest.mark.parametrize("tag", ["", "-", "X", "Q-X", "B-", "I-", "PERSON", "L-"])
def test_split_refuses_other_tags(scheme, tag):
    with pytest.raises(ValueError, match="CRF005"):
        scheme.split(tag)


def test_split_knows_its_own_scheme_only():
    for name, tag in [("BIO", "E-X"), ("IO", "B-X"), ("BMES", "I-X"), ("BIOES", "M-X"), ("BIO", "L-X")]:
        with pytest.raises(ValueError, match="CRF005"):
            TagScheme(name).split(tag)
    with pytest.raises(ValueError, match="CRF005"):
        TagScheme("BMES", outside=False).split("O")


@pytest.mark.parametrize("label", ["B-PER", "I-PER", "E-PER", "S-PER", "L-PER", "U-PER", "M-PER", "B-"])
def test_label_with_prefix(label):
    with pytest.raises(ValueError, match=f"CRF002.*give '{label[2:]}'"):
        check_label(label)


@pytest.mark.parametrize("label", ["", None, 7, b"PER"])
def test_label_that_is_none(label):
    with pytest.raises(ValueError, match="CRF003"):
        check_label(label)


@pytest.mark.parametrize("label", ["PER", "B", "creative-work", "BB-X", "O-X", "人"])
def test_good_labels(label):
    assert check_label(label) == label


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@given(data=st.data())
def test_round_trips(scheme, data):
    spans, n_tokens = data.draw(spans_and_length(full=not scheme.outside))
    expected = merge_adjacent(spans) if scheme.name == "IO" else spans
    tags = scheme.spans_to_tags(spans, n_tokens)
    ids = scheme.spans_to_ids(spans, n_tokens, {"X": 0, "Y": 1})
    assert len(tags) == n_tokens
    assert [scheme.tags(LABELS)[i] for i in ids] == tags
    assert ids.dtype == np.int64
    assert scheme.tags_to_spans(tags) == expected
    lengths = np.array([n_tokens])
    _, starts, ends, labels = scheme.ids_to_spans(ids, lengths)
    assert [(s, e, LABELS[i]) for s, e, i in zip(starts, ends, labels, strict=True)] == expected
    assert scheme.is_legal(ids, lengths, LABELS).all()


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@given(data=st.data())
def test_batch_equals_one_by_one_for_any_path(scheme, data):
    """Random, mostly illegal paths: the vectorised reading is the reading tag by tag, and never crosses documents."""
    n_tags = len(scheme.tags(LABELS))
    docs = data.draw(st.lists(st.lists(st.integers(0, n_tags - 1), max_size=6), max_size=5))
    lengths = np.array([len(doc) for doc in docs], dtype=np.int64)
    ids = np.array([i for doc in docs for i in doc], dtype=np.int64)
    found = [(int(d), int(s), int(e), LABELS[i]) for d, s, e, i in zip(*scheme.ids_to_spans(ids, lengths), strict=True)]
    tags = scheme.tags(LABELS)
    expected = [(d, *span) for d, doc in enumerate(docs) for span in scheme.tags_to_spans(tags[i] for i in doc)]
    assert found == expected


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@pytest.mark.parametrize("n_tokens", [0, 1, 2, 3, 4])
def test_legal_paths_are_those_that_spans_can_write(scheme, n_tokens):
    """A path is legal exactly if it is what its own spans are written as (IO: every path is)."""
    labels = ["X"] if n_tokens == 4 else LABELS
    tags = scheme.tags(labels)
    paths = np.array(list(itertools.product(range(len(tags)), repeat=n_tokens)), dtype=np.int64)
    legal = scheme.is_legal(paths.ravel(), np.full(len(paths), n_tokens), labels)
    for path, is_legal in zip(paths.tolist(), legal, strict=True):
        path_tags = [tags[i] for i in path]
        rewritten = scheme.spans_to_tags(scheme.tags_to_spans(path_tags), n_tokens)
        assert is_legal == (rewritten == path_tags), path_tags


@pytest.mark.parametrize(
    ("name", "tags", "spans"),
    [
        ("BIO", "I-X I-X O", [(0, 2, "X")]),
        ("BIO", "O I-X", [(1, 2, "X")]),
        ("BIO", "B-X I-Y I-Y", [(0, 1, "X"), (1, 3, "Y")]),
        ("BIO", "I-X I-Y", [(0, 1, "X"), (1, 2, "Y")]),
        ("BIO", "I-X B-X I-X", [(0, 1, "X"), (1, 3, "X")]),
        ("BIOES", "B-X O", [(0, 1, "X")]),
        ("BIOES", "B-X I-X", [(0, 2, "X")]),
        ("BIOES", "E-X E-X", [(0, 1, "X"), (1, 2, "X")]),
        ("BIOES", "S-X E-X", [(0, 1, "X"), (1, 2, "X")]),
        ("BIOES", "S-X I-X E-X", [(0, 1, "X"), (1, 3, "X")]),
        ("BIOES", "B-X S-X", [(0, 1, "X"), (1, 2, "X")]),
        ("BIOES", "B-X E-Y", [(0, 1, "X"), (1, 2, "Y")]),
        ("BIOES", "E-X I-X", [(0, 1, "X"), (1, 2, "X")]),
        ("BMES", "M-X M-X O E-X", [(0, 2, "X"), (3, 4, "X")]),
        ("IO", "I-X I-X I-Y O I-X", [(0, 2, "X"), (2, 3, "Y"), (4, 5, "X")]),
    ],
)
def test_repair(name, tags, spans):
    assert TagScheme(name).tags_to_spans(tags.split()) == spans


def test_border_of_documents_ends_entities():
    scheme = TagScheme("BIO")
    ids = ids_of(scheme, ["B-X", "I-X", "I-X", "I-X", "O", "B-Y"])
    docs, starts, ends, labels = scheme.ids_to_spans(ids, np.array([0, 2, 0, 2, 2, 0]))
    assert list(zip(docs, starts, ends, labels, strict=True)) == [(1, 0, 2, 0), (3, 0, 2, 0), (4, 1, 2, 1)]
    assert scheme.is_legal(ids, np.array([0, 2, 0, 2, 2, 0]), LABELS).tolist() == [True, True, True, False, True, True]


def test_negative_ids_are_no_tag():
    scheme = TagScheme("BMES", outside=False)
    docs, starts, ends, _ = scheme.ids_to_spans(np.array([-1, 3, -1]), np.array([3]))
    assert (docs.tolist(), starts.tolist(), ends.tolist()) == ([0], [1], [2])


def test_empty_batch():
    none = np.array([], dtype=np.int64)
    for scheme in SCHEMES:
        assert [a.shape for a in scheme.ids_to_spans(none, none)] == [(0,)] * 4
        assert scheme.is_legal(none, none, LABELS).shape == (0,)
        assert scheme.is_legal(none, np.array([0, 0]), LABELS).tolist() == [True, True]


def test_lengths_must_fit():
    with pytest.raises(ValueError, match=r"CRF008.*add up to 3.*there are 2"):
        TagScheme("BIO").ids_to_spans(np.array([0, 1]), np.array([1, 2]))


@pytest.mark.parametrize(
    "spans",
    [[(0, 2, "X"), (1, 3, "Y")], [(0, 4, "X")], [(-1, 1, "X")], [(1, 1, "X")], [(2, 1, "X")], [(0, 1, "X")] * 2],
)
def test_bad_spans(spans):
    with pytest.raises(ValueError, match="CRF004"):
        TagScheme("BIO").spans_to_tags(spans, 3)


def test_uncovered_token_without_outside_tag():
    with pytest.raises(ValueError, match=r"CRF006.*only 2 of 3"):
        TagScheme("BMES", outside=False).spans_to_tags([(0, 2, "")], 3)


def test_unknown_label_id():
    with pytest.raises(ValueError, match=r"CRF007.*'Z'.*'X'"):
        TagScheme("BIO").spans_to_ids([(0, 1, "Z")], 1, {"X": 0})


@given(spans_and_length())
def test_conversions_equal_spacy(case):
    spans, n_tokens = case
    bio, bioes = TagScheme("BIO"), TagScheme("BIOES")
    iob = bio.spans_to_tags(spans, n_tokens)
    biluo = iob_to_biluo(iob)
    spelled = [tag.replace("E-", "L-").replace("S-", "U-") for tag in convert_tags(iob, bio, bioes)]
    assert spelled == biluo
    assert convert_tags(biluo, bioes, bio) == biluo_to_iob(biluo) == iob
    assert bioes.tags_to_spans(biluo) == [(start, end + 1, label) for label, start, end in tags_to_entities(biluo)]


@pytest.mark.parametrize("source", SCHEMES[:4], ids=str)
@pytest.mark.parametrize("target", SCHEMES[:4], ids=str)
@given(case=spans_and_length())
def test_convert_tags_keeps_spans(source, target, case):
    spans, n_tokens = case
    tags = convert_tags(source.spans_to_tags(spans, n_tokens), source, target)
    expected = merge_adjacent(spans) if "IO" in (source.name, target.name) else spans
    assert target.tags_to_spans(tags) == expected
