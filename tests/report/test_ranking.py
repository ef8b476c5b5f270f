"""Ranking by uncertainty: the figures, the order and the file."""

import json
import math

import pytest
from spacy.tokens import Doc
from tiny_pipelines import TEXTS, train_nlp

from spacy_bilstm_crf.report.ranking import MEASURES, RankedText, read_texts, score_texts, write_ranking


@pytest.fixture(scope="module")
def nlp():
    return train_nlp()


def rank(nlp, texts, path, **options):
    write_ranking(score_texts(nlp, ((text, {}) for text in texts)), path, **options)
    return [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]


def make_text(text, entropy=1.0, confidence=0.5, margin=0.1, n_tokens=1):
    return RankedText(text, {}, entropy, confidence, margin, n_tokens, [])


def test_the_figures_are_those_of_the_paths(nlp):
    pipe = nlp.get_pipe("ner_crf")
    texts = [text for text in TEXTS if text.strip()]
    for text, found in zip(texts, score_texts(nlp, ((text, {}) for text in texts)), strict=True):
        doc = nlp.make_doc(text)
        best, second = pipe.n_best([doc], 2)[0]
        assert found.confidence == pytest.approx(best.prob, abs=1e-5)
        assert found.margin == pytest.approx(best.prob - second.prob, abs=1e-5)
        assert found.entropy >= -math.log(best.prob) * best.prob - 1e-6
        expected = [(ent.start_char, ent.end_char, ent.label_) for ent in nlp(text).ents]
        assert [(span["start"], span["end"], span["label"]) for span in found.spans] == expected


@pytest.mark.parametrize("measure", MEASURES)
def test_the_most_uncertain_comes_first(nlp, tmp_path, measure):
    rows = rank(nlp, [text for text in TEXTS if text.strip()], tmp_path / "out.jsonl", measure=measure)
    figures = [row["meta"]["uncertainty"] for row in rows]
    assert figures == sorted(figures, reverse=True)
    assert len(set(figures)) > 2
    of_entropy = [row["meta"]["entropy"] for row in rows]
    assert (figures == of_entropy) == (measure == "entropy")


def test_equal_ones_stay_in_order_and_batches_do_not_matter(nlp, tmp_path):
    texts = ["Bob left Paris .", "Paris", "Bob left Paris .", "In Berlin", "Paris"]
    whole = rank(nlp, texts, tmp_path / "a.jsonl")
    write_ranking(score_texts(nlp, ((text, {}) for text in texts), batch_size=1), tmp_path / "b.jsonl")
    assert [row["text"] for row in whole] == [
        json.loads(line)["text"] for line in (tmp_path / "b.jsonl").read_text(encoding="utf8").splitlines()
    ]
    ranked = [make_text(str(i)) for i in range(5)]
    write_ranking(iter(ranked), tmp_path / "c.jsonl")
    assert [json.loads(line)["text"] for line in (tmp_path / "c.jsonl").open()] == ["0", "1", "2", "3", "4"]


def test_measures():
    text = make_text("a", entropy=6.0, confidence=0.7, margin=0.3, n_tokens=3)
    assert text.uncertainty("entropy") == 6.0
    assert text.uncertainty("entropy", per_token=True) == 2.0
    assert text.uncertainty("least-confidence") == pytest.approx(0.3)
    assert text.uncertainty("margin") == pytest.approx(0.7)


def test_a_limit_keeps_the_first(tmp_path):
    ranked = [make_text(str(i), entropy=i) for i in range(5)]
    assert write_ranking(iter(ranked), tmp_path / "out.jsonl", limit=2) == 2
    assert [json.loads(line)["text"] for line in (tmp_path / "out.jsonl").open()] == ["4", "3"]


def test_other_fields_and_meta_are_kept(nlp, tmp_path):
    texts = [("Bob left Paris .", {"id": 7, "meta": {"source": "here"}})]
    write_ranking(score_texts(nlp, texts), tmp_path / "out.jsonl")
    (row,) = [json.loads(line) for line in (tmp_path / "out.jsonl").open(encoding="utf8")]
    assert row["id"] == 7
    assert row["meta"]["source"] == "here"
    assert row["meta"]["entropy"] >= 0


def test_spans_can_be_read_back_by_convert(nlp, tmp_path):
    from spacy_bilstm_crf.formats import read_docs

    rank(nlp, ["Bob left Paris ."], tmp_path / "out.jsonl")
    (doc,) = read_docs(tmp_path / "out.jsonl", nlp)
    assert isinstance(doc, Doc)
    assert [(ent.text, ent.label_) for ent in doc.ents] == [("Bob", "PER"), ("Paris", "LOC")]


def test_nothing_is_left_behind_when_a_text_is_bad(tmp_path):
    def texts():
        yield make_text("a")
        raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        write_ranking(texts(), tmp_path / "out.jsonl")
    assert list(tmp_path.iterdir()) == []
    assert write_ranking(iter([]), tmp_path / "out.jsonl") == 0
    assert list(tmp_path.iterdir()) == []


def test_texts_are_read_from_lines(write):
    path = write("\ufeffOne .\n\n  \nTwo .\r\nThree", "texts.txt")
    assert [text for text, _ in read_texts(path)] == ["One .", "Two .", "Three"]


def test_texts_are_read_from_jsonl(write):
    path = write('{"text": "One .", "id": 1}\n\n{"text": ""}\n{"text": "Two ."}', "texts.jsonl")
    assert list(read_texts(path)) == [("One .", {"id": 1}), ("Two .", {})]
    path = write('{"body": "One ."}', "other.jsonl")
    assert list(read_texts(path, "body")) == [("One .", {})]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", b'{"text": "One"}\n{"text": '),
        ("a.jsonl", b'{"text": "One"}\n{"body": "Two"}'),
        ("a.jsonl", b'{"text": "One"}\n["Two"]'),
        ("a.jsonl", b'{"text": "One"}\n{"text": 2}'),
        ("a.txt", b"One\n\xff\xfe"),
    ],
)
def test_a_line_without_a_text_is_named(write, name, content):
    with pytest.raises(ValueError, match=rf"CRF473.*{name}:2: .*Expected"):
        list(read_texts(write(content, name)))
