"""Texts with character offsets."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spacy_bilstm_crf.formats import Finding, ReadOptions, ReadReport, read_jsonl

TEXT = "Ann Lee left New York City today."


def read(path, nlp, **options):
    report = ReadReport()
    return list(read_jsonl(path, nlp, options=ReadOptions(**options), report=report)), report


def as_lines(*records):
    return "\n".join(json.dumps(record) for record in records)


def ents(doc):
    return [(ent.text, ent.label_) for ent in doc.ents]


@pytest.mark.parametrize("key", ["entities", "spans", "ents", "label"])
@pytest.mark.parametrize("names", [None, ("start", "end", "label"), ("start_offset", "end_offset", "label")])
def test_forms(nlp, write, key, names):
    spans = [[0, 7, "PER"], [13, 26, "LOC"]]
    spans = [dict(zip(names, span, strict=True)) for span in spans] if names else spans
    docs, report = read(write(as_lines({"text": TEXT, key: spans, "meta": 1}), "a.jsonl"), nlp, strict=True)
    assert [ents(doc) for doc in docs] == [[("Ann Lee", "PER"), ("New York City", "LOC")]]
    assert [token.ent_iob for token in docs[0]] == [3, 1, 2, 3, 1, 1, 2, 2]
    assert report.labels == {"PER": 1, "LOC": 1}
    assert (report.n_docs, report.n_tokens, report.findings) == (1, 8, {})


def test_pair_of_text_and_annotation(nlp, write):
    (doc,), _ = read(write(as_lines([TEXT, {"entities": [[0, 7, "PER"]]}])), nlp)
    assert ents(doc) == [("Ann Lee", "PER")]


def test_no_list_is_not_an_empty_list(nlp, write):
    (unknown, empty, none), report = read(
        write(as_lines({"text": "a b"}, {"text": "a", "ents": []}, {"text": ""})), nlp
    )
    assert not unknown.has_annotation("ENT_IOB")
    assert [token.ent_iob for token in empty] == [2]
    assert len(none) == 0
    assert report.n_unknown == 2


def test_longest_of_overlapping_spans(nlp, write):
    spans = [[13, 21, "LOC"], [13, 26, "LOC"], [0, 7, "PER"], [0, 12, "X"], [13, 26, "LOC"]]
    path = write(as_lines({"text": TEXT}, {"text": TEXT, "entities": spans}))
    docs, report = read(path, nlp)
    assert ents(docs[1]) == [("Ann Lee left", "X"), ("New York City", "LOC")]
    assert report.findings == {
        Finding.OVERLAPPING_SPAN: [
            f"{path}:2: 'New York' (LOC) in 'New York City' (LOC)",
            f"{path}:2: 'Ann Lee' (PER) in 'Ann Lee left' (X)",
            f"{path}:2: 'New York City' (LOC) in 'New York City' (LOC)",
        ]
    }
    with pytest.raises(ValueError, match=r"CRF403.*:2: span nested.*'New York'"):
        read(path, nlp, strict=True)


def test_misaligned_spans_are_missing(nlp, write):
    path = write(as_lines({"text": TEXT, "entities": [[1, 7, "PER"], [13, 24, "LOC"], [27, 32, "DATE"]]}))
    (doc,), report = read(path, nlp)
    assert ents(doc) == [("today", "DATE")]
    assert [token.ent_iob for token in doc] == [0, 0, 2, 0, 0, 0, 3, 2]
    first, second = report.findings[Finding.MISALIGNED_SPAN]
    assert first == f"{path}:1: 1-7 'nn Lee' (PER) in 'Ann Lee left New York '"
    assert "13-24 'New York Ci' (LOC)" in second
    with pytest.raises(ValueError, match=r"CRF403.*:1: span that begins or ends inside of a token.*'nn Lee'"):
        read(path, nlp, strict=True)


def test_misaligned_beside_a_good_one(nlp, write):
    (doc,), _ = read(write(as_lines({"text": TEXT, "entities": [[0, 7, "PER"], [5, 12, "X"]]})), nlp)
    assert ents(doc) == [("Ann Lee", "PER")]
    assert [token.ent_iob for token in doc][:4] == [3, 1, 0, 2]


def test_white_space_at_the_edges(nlp, write):
    path = write(as_lines({"text": TEXT, "entities": [[0, 8, "PER"], [12, 26, "LOC"]]}))
    (doc,), report = read(path, nlp)
    assert ents(doc) == [("Ann Lee", "PER"), ("New York City", "LOC")]
    assert report.n_findings(Finding.PADDED_SPAN) == 2


@pytest.mark.parametrize(
    "span",
    [
        [0, 99, "X"],
        [-3, 7, "X"],
        [7, 7, "X"],
        [7, 0, "X"],
        [3, 4, "X"],
        [0, 7, ""],
        [0, 7, None],
        [0, 7],
        ["0", "7", "X"],
        [True, 7, "X"],
        {"start": 0, "label": "X"},
        "PER",
        None,
    ],
)
def test_spans_that_are_none(nlp, write, span):
    path = write(as_lines({"text": TEXT, "entities": [span, [8, 12, "Y"]]}))
    (doc,), report = read(path, nlp)
    assert ents(doc) == [("left", "Y")]
    assert report.n_findings(Finding.INVALID_SPAN) == 1
    with pytest.raises(ValueError, match=r"CRF403.*:1: span that is none"):
        read(path, nlp, strict=True)


@pytest.mark.parametrize("line", ["{", '{"txt": "a"}', '{"text": 3}', "[1, 2]", '"a"', "Ann\tB-PER"])
def test_lines_that_are_not_json_objects(nlp, write, line):
    with pytest.raises(ValueError, match=r"CRF407.*a.jsonl:3: "):
        read(write(as_lines({"text": "a"}) + "\n\n" + line, "a.jsonl"), nlp)


def test_rejected_annotation_is_left_out(nlp, write):
    records = [{"text": "a", "spans": [], "answer": answer} for answer in ("accept", "reject", "ignore")]
    docs, report = read(write(as_lines(*records)), nlp)
    assert (len(docs), report.n_skipped) == (1, 2)


@given(st.text(max_size=30), st.lists(st.tuples(st.integers(-2, 32), st.integers(-2, 32), st.sampled_from("XY"))))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_and_any_offsets(nlp, write, text, spans):
    (doc,), report = read(write(as_lines({"text": text, "entities": spans}), "a.jsonl"), nlp)
    assert doc.text == text
    lost = [Finding.INVALID_SPAN, Finding.MISALIGNED_SPAN, Finding.OVERLAPPING_SPAN]
    assert len(doc.ents) + sum(map(report.n_findings, lost)) == len(spans)
    trimmed = {(s, e, label) for s, e, label in spans}
    for ent in doc.ents:
        assert any(s <= ent.start_char and ent.end_char <= e and text[s:e].strip() == ent.text for s, e, _ in trimmed)
