"""Tokens put together into words: nothing of the document is lost, in linear time."""

import time

import numpy
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc, Span, SpanGroup, Token
from tiny_segmenters import TOKENIZER

from spacy_bilstm_crf.pipeline.character_batch import CharacterBatch
from spacy_bilstm_crf.pipeline.retokenize import make_words
from spacy_bilstm_crf.pipeline.word_batch import Words

NLP = spacy.blank("xx", config={"nlp": {"tokenizer": TOKENIZER}})
ATTR = "retokenize_test"


@pytest.fixture(autouse=True)
def extensions():
    for kind in (Doc, Span, Token):
        kind.set_extension(ATTR, default=None, force=True)
    yield
    for kind in (Doc, Span, Token):
        kind.remove_extension(ATTR)


def merge_tokens(doc, starts):
    ends = numpy.append(starts[1:], len(doc))[: len(starts)]
    return make_words(CharacterBatch.from_docs([doc]), Words(starts, ends, numpy.zeros_like(starts)))[0]


@st.composite
def docs_with_starts(draw):
    """A document, and the first tokens of words."""
    words = draw(st.lists(st.text(min_size=1, max_size=3), max_size=8))
    spaces = draw(st.lists(st.booleans(), min_size=len(words), max_size=len(words)))
    starts = draw(st.lists(st.booleans(), min_size=len(words), max_size=len(words)))
    return Doc(NLP.vocab, words=words, spaces=spaces), numpy.flatnonzero([True, *starts[1:]][: len(words)])


@given(docs_with_starts())
def test_text_and_offsets_stay(doc_with_starts):
    doc, starts = doc_with_starts
    before = doc.to_bytes()
    new = merge_tokens(doc, starts)
    assert new is not doc
    assert new.text == doc.text
    assert [token.idx for token in new] == [doc[start].idx for start in starts.tolist()]
    assert doc.to_bytes() == before


@given(docs_with_starts(), st.data())
def test_spans_grow_to_the_words_they_touch(doc_with_starts, data):
    doc, starts = doc_with_starts
    index = st.integers(0, len(doc))
    spans = [sorted(pair) for pair in data.draw(st.lists(st.tuples(index, index), max_size=3))]
    doc.spans["key"] = SpanGroup(
        doc,
        name="name",
        attrs={"scores": [1.0]},
        spans=[Span(doc, a, b, "L", kb_id="K", span_id="I") for a, b in spans],
    )
    for a, b in spans:
        Span(doc, a, b)._.set(ATTR, (a, b))
    new = merge_tokens(doc, starts)
    group = new.spans["key"]
    assert (group.name, group.attrs, len(group)) == ("name", {"scores": [1.0]}, len(spans))
    for old, span in zip(doc.spans["key"], group, strict=True):
        assert (span.label_, span.kb_id_, span.id_) == ("L", "K", "I")
        assert span.doc is new
        if len(old):
            touched = [token for token in new if token.idx < old.end_char and token.idx + len(token) > old.start_char]
            assert (span.start, span.end) == (touched[0].i, touched[-1].i + 1)
            assert span._.get(ATTR) is not None
        else:
            assert len(span) == 0


def test_what_hangs_on_the_document_moves_over():
    doc = NLP.make_doc("甲乙丙丁")
    doc._.set(ATTR, "doc")
    doc[2]._.set(ATTR, "token")
    doc.user_data["other"] = {"a": 1}
    doc.cats = {"good": 0.5}
    doc.user_hooks["similarity"] = doc.user_token_hooks["lemma"] = doc.user_span_hooks["vector"] = len
    doc.sentiment = 0.25
    doc._context = "context"
    doc.tensor = numpy.arange(8, dtype="float32").reshape(4, 2)
    new = merge_tokens(doc, numpy.array([0, 2, 3]))
    assert new._.get(ATTR) == "doc"
    assert [token._.get(ATTR) for token in new] == [None, "token", None]
    assert (new.user_data["other"], new.cats, new.sentiment, new._context) == ({"a": 1}, {"good": 0.5}, 0.25, "context")
    assert new.user_hooks == {"similarity": len}
    assert new.user_token_hooks == {"lemma": len}
    assert new.user_span_hooks == {"vector": len}
    assert new.tensor.tolist() == [[1, 2], [4, 5], [6, 7]]
    # The two do not share what a component may change.
    new.user_data["new"] = new.cats["new"] = 1
    assert "new" not in doc.user_data
    assert "new" not in doc.cats


def test_entities_and_sentences_stay():
    doc = NLP.make_doc("甲乙丙丁戊己庚")
    ents = [Span(doc, 0, 2, "A", kb_id="Q1", span_id="i"), Span(doc, 2, 4, "A"), Span(doc, 5, 6, "B")]
    doc.set_ents(ents, blocked=[doc[6:7]], missing=[doc[4:5]])
    for i in range(1, 7):
        doc[i].is_sent_start = i == 4
    new = merge_tokens(doc, numpy.array([0, 2, 3, 4, 5, 6]))
    found = [(ent.text, ent.label_, ent.kb_id_, ent.id_) for ent in new.ents]
    assert found == [("甲乙", "A", "Q1", "i"), ("丙丁", "A", "", ""), ("己", "B", "", "")]
    assert [token.ent_iob for token in new] == [3, 3, 1, 0, 3, 3]
    assert new[5].ent_type == 0
    assert [sent.text for sent in new.sents] == ["甲乙丙丁", "戊己庚"]


def test_documents_without_annotation_get_none():
    new = merge_tokens(NLP.make_doc("甲乙丙"), numpy.array([0, 1]))
    assert not new.has_annotation("ENT_IOB")
    assert not new.has_annotation("SENT_START")
    assert new.user_data == {}


@pytest.mark.parametrize("text", ["", "甲", " ", "👩\u200d💻"])
def test_short_documents(text):
    doc = NLP.make_doc(text)
    new = merge_tokens(doc, numpy.arange(len(doc)))
    assert [token.text for token in new] == [token.text for token in doc]
    assert new.text == text


def test_a_mean_of_rows_is_made_only_where_there_is_a_row_for_each_token():
    doc = NLP.make_doc("甲乙丙")
    doc.tensor = numpy.ones((1, 2), dtype="float32")
    assert merge_tokens(doc, numpy.array([0])).tensor.size == 0


def seconds_for(n_tokens):
    doc = NLP.make_doc("甲乙丙丁戊" * (n_tokens // 5))
    doc.spans["key"] = [doc[i : i + 2] for i in range(0, n_tokens - 2, 10)]
    starts = numpy.arange(0, n_tokens, 2)
    times = []
    for _ in range(5):
        start = time.process_time()
        merge_tokens(doc, starts)
        times.append(time.process_time() - start)
    return min(times)


def test_time_is_linear():
    seconds_for(1000)
    assert seconds_for(80_000) < 3 * 8 * seconds_for(10_000)


@given(st.lists(docs_with_starts(), max_size=4))
def test_documents_of_a_batch_do_not_see_each_other(docs_and_starts):
    docs = [doc for doc, _ in docs_and_starts]
    firsts = numpy.cumsum([0, *map(len, docs)]).tolist()
    rows = [starts + first for (_, starts), first in zip(docs_and_starts, firsts, strict=False)]
    starts = numpy.concatenate([numpy.zeros(0, dtype="int64"), *rows])
    ends = numpy.append(starts[1:], firsts[-1])[: len(starts)]
    index = numpy.repeat(numpy.arange(len(docs)), [len(row) for row in rows]).astype("int64")
    made = make_words(CharacterBatch.from_docs(docs), Words(starts, ends, index))
    assert [[token.text_with_ws for token in doc] for doc in made] == [
        [token.text_with_ws for token in merge_tokens(doc, starts)] for doc, starts in docs_and_starts
    ]
