"""Tags of which some are unknown: what the Doc says, and that no known tag is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import DocBin

from spacy_bilstm_crf.formats import Finding, ReadOptions, ReadReport, read_tagged
from spacy_bilstm_crf.formats.partial import certain_spans, known_spans, repair_tags
from spacy_bilstm_crf.tag_scheme import TagScheme

# tags, the entities that are known whole, and the tokens that are unknown
CASES = [
    ("BIO", "B-X ? O", [], [(0, 2)]),
    ("BIO", "B-X I-X ?", [], [(0, 3)]),
    ("BIO", "B-X ? I-X O", [], [(0, 3)]),
    ("BIO", "B-X ? B-Y O", [(2, 3, "Y")], [(0, 2)]),
    ("BIO", "? B-X O", [(1, 2, "X")], [(0, 1)]),
    ("BIO", "? I-X O", [], [(0, 2)]),
    ("BIO", "O I-X B-X ?", [(1, 2, "X")], [(2, 4)]),
    ("BIO", "O ? O ? ?", [], [(1, 2), (3, 5)]),
    ("BIO", "B-X I-Y ?", [(0, 1, "X")], [(1, 3)]),
    ("BIOES", "? S-X ?", [(1, 2, "X")], [(0, 1), (2, 3)]),
    ("BIOES", "? B-X E-X ?", [(1, 3, "X")], [(0, 1), (3, 4)]),
    ("BIOES", "B-X ? E-X O", [], [(0, 3)]),
    ("BIOES", "B-X I-X ? O", [], [(0, 3)]),
    ("BIOES", "? E-X O", [], [(0, 2)]),
    ("BIOES", "B-X O ?", [(0, 1, "X")], [(2, 3)]),
    ("BMES", "B-X ? E-X S-X", [(3, 4, "X")], [(0, 3)]),
    ("IO", "O I-X O", [(1, 2, "X")], []),
    ("IO", "? I-X O I-X ?", [], [(0, 2), (3, 5)]),
]


@pytest.mark.parametrize(("name", "tags", "spans", "missing"), CASES)
def test_certain_spans(name, tags, spans, missing):
    known = [None if tag == "?" else tag for tag in tags.split()]
    assert certain_spans(known, TagScheme(name)) == (spans, missing)


@given(st.sampled_from(["BIO", "BIOES", "BMES", "IO"]), st.data())
def test_an_entity_is_certain_if_every_completion_has_it(name, data):
    """Every legal way to fill in the unknown tags keeps the certain entities, and nothing else is kept by all."""
    scheme = TagScheme(name)
    tags = scheme.tags(["X"])
    transitions, starts, ends = scheme.allowed_transitions(["X"])
    path = [data.draw(st.sampled_from([i for i, legal in enumerate(starts) if legal]))]
    for _ in range(data.draw(st.integers(0, 3))):
        path.append(data.draw(st.sampled_from([i for i, legal in enumerate(transitions[path[-1]]) if legal])))
    while not ends[path[-1]]:
        path.append(next(i for i, legal in enumerate(transitions[path[-1]]) if legal and ends[i]))
    is_known = [data.draw(st.booleans()) for _ in path]
    partial = [tags[i] if known else None for i, known in zip(path, is_known, strict=True)]

    completions = [[]]
    for tag in partial:
        choices = [tag] if tag else tags
        completions = [
            [*done, choice]
            for done in completions
            for choice in choices
            if scheme.allows(done[-1] if done else None, choice)
        ]
    completions = [done for done in completions if scheme.allows(done[-1], None)]
    in_all = set.intersection(*(set(scheme.tags_to_spans(done)) for done in completions))
    spans, missing = certain_spans(partial, scheme)
    assert set(spans) <= in_all
    assert {span for span in in_all if all(is_known[span[0] : span[1]])} <= set(spans)
    outside = set(range(len(path))) - {i for start, end, *_ in [*spans, *missing] for i in range(start, end)}
    assert {partial[i] for i in outside} <= {"O"}
    assert repair_tags(partial, scheme) == partial


@given(st.sampled_from(["BIO", "BIOES", "BMES", "IO"]), st.data())
def test_repaired_tags_agree_with_a_legal_path(name, data):
    scheme = TagScheme(name)
    tags = scheme.tags(["X", "Y"])
    partial = data.draw(st.lists(st.sampled_from([*tags, None]), min_size=1, max_size=6))
    repaired = repair_tags(partial, scheme)
    assert [tag is None for tag in repaired] == [tag is None for tag in partial]
    assert [tag and scheme.split(tag)[1] for tag in repaired] == [tag and scheme.split(tag)[1] for tag in partial]
    assert certain_spans(repaired, scheme) == certain_spans(partial, scheme)
    before = {None}
    for tag in repaired:
        before = {now for now in ([tag] if tag else tags) for last in before if scheme.allows(last, now)}
    assert any(scheme.allows(last, None) for last in before)


@pytest.mark.parametrize(
    ("name", "tags", "repaired"),
    [
        ("BIO", "O I-X ?", "O B-X ?"),
        ("BIO", "? I-X I-Y", "? I-X B-Y"),
        ("BIOES", "B-X O ? E-X E-X", "S-X O ? E-X S-X"),
        ("BIOES", "? I-X O I-X ?", "? E-X O B-X ?"),
        ("BMES", "M-X M-X ? M-X ?", "B-X M-X ? M-X ?"),
        # One unknown token cannot go on with one entity and begin another.
        ("BIOES", "B-X ? I-Y", "B-X ? S-Y"),
        ("BIOES", "B-X ? I-Y ? I-X", "B-X ? B-Y ? S-X"),
        ("BIOES", "B-X ? ? I-Y", "B-X ? ? E-Y"),
        ("BIOES", "B-X ? I-X", "B-X ? E-X"),
        ("BIO", "B-X ? I-Y", "B-X ? I-Y"),
    ],
)
def test_repaired_tags(name, tags, repaired):
    known = [None if tag == "?" else tag for tag in tags.split()]
    assert repair_tags(known, TagScheme(name)) == [None if tag == "?" else tag for tag in repaired.split()]


def test_known_spans_end_at_unknown_tokens():
    assert known_spans(["B-X", None, "I-X", "I-X"], TagScheme("BIO")) == [(0, 1, "X"), (2, 4, "X")]
    assert known_spans([], TagScheme("BIO")) == []


def read(path, nlp, **options):
    report = ReadReport()
    return list(read_tagged(path, nlp.vocab, options=ReadOptions(**options), report=report)), report


@pytest.mark.parametrize("mark", ["?", "_", "-", "*", "UNK"])
def test_unknown_tag(nlp, write, mark):
    path = write(f"Ann\tB-X\nLee\t{mark}\nand\tO\nBo\tB-X\n.\tO\n\nCy\tB-X\n\nso\t{mark}\n")
    (first, second, third), report = read(path, nlp, unknown_tag=mark, strict=True)
    assert [token.ent_iob for token in first] == [0, 0, 2, 3, 2]
    assert first.user_data == {"crf_tags": ["B-X", None, "O", "B-X", "O"], "crf_tag_scheme": "BIO"}
    assert second.user_data == {}
    assert [token.ent_iob for token in third] == [0]
    assert third.user_data["crf_tags"] == [None]
    assert (report.n_unknown, report.n_ents, report.findings) == (3, 2, {})


def test_known_tags_survive_the_binary_format(nlp, write):
    docs, _ = read(write("Ann\tB-X\nLee\t?\n.\tO\n"), nlp, unknown_tag="?")
    data = DocBin(docs=docs, store_user_data=True).to_bytes()
    (doc,) = DocBin().from_bytes(data).get_docs(nlp.vocab)
    assert list(doc.user_data["crf_tags"]) == ["B-X", None, "O"]
    assert [token.ent_iob for token in doc] == [0, 0, 2]


def test_known_tags_of_several_sentences(nlp, write):
    (doc,), _ = read(write("a\tB-X\n\nb\t?\n\nc\tB-X\n"), nlp, unknown_tag="?", n_sents=0)
    assert doc.user_data["crf_tags"] == ["B-X", None, "B-X"]
    assert [(ent.text, ent.label_) for ent in doc.ents] == [("a", "X"), ("c", "X")], "sentences end entities"


def test_unknown_in_other_schemes(nlp, write):
    (doc,), _ = read(write("a\tU-X\nb\t?\nc\tB-X\nd\tL-X\n"), nlp, unknown_tag="?")
    assert doc.user_data == {"crf_tags": ["S-X", None, "B-X", "E-X"], "crf_tag_scheme": "BIOES"}
    (doc,), report = read(write("a\tI-X\nb\t?\nc\tI-X\nd\tB-X\n"), nlp, unknown_tag="?")
    assert report.scheme == "IOB1"
    assert doc.user_data == {"crf_tags": ["I-X", None, "I-X", "I-X"], "crf_tag_scheme": "IO"}


def test_a_cut_does_not_close_what_is_open(nlp, write):
    path = write("a\tO\nb\tO\nc\tB-X\nd\t?\ne\t?\nf\tO\ng\tO\n")
    for max_tokens, texts in [(2, ["ab", "cd", "ef", "g"]), (3, ["ab", "cd", "efg"]), (4, ["abcd", "efg"])]:
        with pytest.warns(UserWarning, match="CRF450"):
            docs, _ = read(path, nlp, unknown_tag="?", max_tokens=max_tokens)
        assert ["".join(token.text for token in doc) for doc in docs] == texts
        assert not any(doc.ents for doc in docs)


def test_unknown_is_not_a_legal_or_illegal_neighbour(nlp, write):
    _, report = read(write("a\t?\nb\tI-X\nc\tO\nd\tI-X\ne\tB-Y\nf\tO\n"), nlp, unknown_tag="?", scheme="IOB2")
    assert [where.split(": ")[1] for where in report.findings[Finding.ILLEGAL_TAG]] == ["I-X after O"]
