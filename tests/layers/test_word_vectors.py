"""Word vectors: which word gets which, what is learnt, and what stays as it is."""

import numpy
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from spacy.tokens import Doc
from spacy.vectors import Vectors
from thinc.api import Adam

from spacy_bilstm_crf.layers.word_form_embed import WordFormEmbed
from spacy_bilstm_crf.layers.word_vectors import VectorLookup, WordVectors, learn_vocabulary

TABLE = numpy.arange(12, dtype="float32").reshape(4, 3) + 1
KEYS = ["paris", "Paris", "us", "ß"]


def make_vocab(**kwargs):
    vocab = spacy.blank("en").vocab
    vocab.vectors = Vectors(strings=vocab.strings, data=TABLE.copy(), keys=KEYS, **kwargs)
    return vocab


def make_layer(vocab, words, *, fine_tune=False):
    layer = VectorLookup(fine_tune=fine_tune)
    docs = [Doc(vocab, words=words)]
    if fine_tune:
        learn_vocabulary(layer, docs)
    layer.initialize(X=docs)
    return layer


def look_up(layer, vocab, words):
    return layer.predict([Doc(vocab, words=words)])[0]


def test_the_exact_form_comes_before_the_lower_case_one():
    vocab = make_vocab()
    found = look_up(make_layer(vocab, ["us"]), vocab, ["Paris", "paris", "PARIS", "US", "London", "ẞ"])
    assert_allclose(found, TABLE[[1, 0, 0, 2, 0, 3]] * [[1], [1], [1], [1], [0], [1]])


def test_looking_up_adds_no_strings():
    vocab = make_vocab()
    layer = make_layer(vocab, ["us"])
    doc = Doc(vocab, words=["PARIS", "LONDON"])
    before = len(vocab.strings)
    layer.predict([doc])
    assert len(vocab.strings) == before


def test_another_attribute_of_the_table_is_respected():
    vocab = make_vocab(attr="SHAPE")
    vocab.vectors.add(vocab.strings.add("Xxxx"), row=2)
    found = look_up(make_layer(vocab, ["us"]), vocab, ["Xena", "Paris", "paris"])
    assert_allclose(found, [TABLE[2], TABLE[2] * 0, TABLE[2] * 0])


def test_floret_vectors_are_made_of_parts_of_words():
    vocab = spacy.blank("en").vocab
    data = numpy.random.default_rng(0).standard_normal((50, 4)).astype("float32")
    vocab.vectors = Vectors(strings=vocab.strings, data=data, mode="floret", minn=2, maxn=3, hash_count=2)
    doc = Doc(vocab, words=["unheard", "of"])
    layer = make_layer(vocab, ["a"])
    assert_allclose(layer.predict([doc])[0], [token.vector for token in doc], rtol=1e-6)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.sampled_from([*KEYS, "PARIS", "Us", "猫", " ", "x"]), max_size=6), max_size=4))
def test_the_vectors_of_a_batch_are_those_of_its_documents(texts):
    vocab = make_vocab()
    layer = make_layer(vocab, ["us"])
    docs = [Doc(vocab, words=words) for words in texts]
    for doc, found in zip(docs, layer.predict(docs), strict=True):
        assert found.shape == (len(doc), 3)
        if len(doc):
            assert_allclose(found, layer.predict([doc])[0])


@pytest.mark.parametrize("fine_tune", [True, False])
def test_the_table_of_the_vocabulary_never_changes(fine_tune):
    vocab = make_vocab()
    layer = make_layer(vocab, ["us", "US", "London"], fine_tune=fine_tune)
    before = look_up(layer, vocab, ["US", "Paris"])
    vectors, backprop = layer([Doc(vocab, words=["US", "London", "Paris"])], is_train=True)
    backprop([numpy.ones_like(vectors[0])])
    layer.finish_update(Adam(0.1))
    after = look_up(layer, vocab, ["US", "Paris"])
    assert_allclose(vocab.vectors.data, TABLE)
    assert_allclose(after[1], before[1], err_msg="a word that does not occur in the training data was changed")
    assert numpy.allclose(after[0], before[0]) is not fine_tune


def test_the_gradient_is_the_sum_over_the_tokens_of_a_row():
    vocab = make_vocab()
    layer = make_layer(vocab, ["us", "Paris"], fine_tune=True)
    assert layer.attrs["listed"].tolist() == [1, 2]
    _, backprop = layer([Doc(vocab, words=["US", "London"]), Doc(vocab, words=[]), Doc(vocab, words=["us"])], True)
    backprop([numpy.full((2, 3), 2, dtype="f"), numpy.zeros((0, 3), dtype="f"), numpy.full((1, 3), 5, dtype="f")])
    assert_allclose(layer.get_grad("E"), [[0, 0, 0], [7, 7, 7]])


def test_what_was_learnt_is_stored():
    vocab = make_vocab()
    layer = make_layer(vocab, ["us"], fine_tune=True)
    layer.set_param("E", layer.get_param("E") + 1)
    loaded = VectorLookup(fine_tune=True).from_bytes(layer.to_bytes())
    assert_allclose(look_up(loaded, vocab, ["us", "paris"]), TABLE[[2, 0]] + [[1], [0]])


def test_without_vectors_initializing_says_what_to_do():
    with pytest.raises(ValueError, match=r"CRF204.*initialize.*vectors"):
        make_layer(spacy.blank("en").vocab, ["us"])


def test_other_vectors_than_those_of_the_training_are_refused():
    layer = make_layer(make_vocab(), ["us"])
    vocab = spacy.blank("en").vocab
    vocab.vectors = Vectors(strings=vocab.strings, data=numpy.ones((1, 5), dtype="f"), keys=["us"])
    with pytest.raises(ValueError, match=r"CRF205.*5.*3"):
        look_up(layer, vocab, ["us"])


def test_words_that_get_a_vector_later_are_not_answered_from_the_cache():
    vocab = make_vocab()
    layer = WordFormEmbed(VectorLookup(fine_tune=False), cache_size=10)
    docs = [Doc(vocab, words=["London"])]
    layer.initialize(X=docs)
    assert not layer.predict(docs)[0].any()
    vocab.vectors.add(vocab.strings.add("London"), row=3)
    assert_allclose(layer.predict(docs)[0], TABLE[[3]])


@pytest.mark.parametrize("fine_tune", [True, False])
@pytest.mark.parametrize("width", [5, None])
def test_vectors_are_mapped_to_the_width(fine_tune, width):
    vocab = make_vocab()
    docs = [Doc(vocab, words=["us", "London"]), Doc(vocab, words=[])]
    embed = WordVectors(width=width, fine_tune=fine_tune)
    embed.initialize(X=docs)
    found = embed.predict(docs)
    assert [X.shape for X in found] == [(2, width or 3), (0, width or 3)]
    if width is None:
        assert_allclose(found[0], [TABLE[2], TABLE[2] * 0])
    assert found[0][0].any()
    loaded = WordVectors(width=width, fine_tune=fine_tune).from_bytes(embed.to_bytes())
    assert_allclose(loaded.predict(docs)[0], found[0])
