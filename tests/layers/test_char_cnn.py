"""Vectors of words from their characters."""

import numpy
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc

from spacy_bilstm_crf.layers.characters import CharCNN, extract_characters

VOCAB = spacy.blank("en").vocab
WIDTH = 6


def make_doc(*words):
    return Doc(VOCAB, words=list(words))


def make_layer(**kwargs):
    layer = CharCNN(width=WIDTH, char_width=5, rows=50, **kwargs)
    layer.initialize(X=[make_doc("some", "words")])
    return layer


LAYER = make_layer()


def test_one_vector_a_token_and_one_array_a_document():
    docs = [make_doc("one"), make_doc(), make_doc("two", "words", "words")]
    vectors = LAYER.predict(docs)
    assert [array.shape for array in vectors] == [(1, WIDTH), (0, WIDTH), (3, WIDTH)]
    assert numpy.array_equal(vectors[2][1], vectors[2][2])


@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_a_word_has_the_same_vector_in_any_company(words):
    together = LAYER.predict([make_doc(*words)])[0]
    alone = numpy.concatenate([LAYER.predict([make_doc(word)])[0] for word in words])
    numpy.testing.assert_allclose(together, alone, atol=1e-6)


@pytest.mark.parametrize(("left", "right"), [("cat", "cats"), ("cat", "Cat"), ("ab", "ba"), ("東京", "京都")])
def test_different_characters_give_different_vectors(left, right):
    vectors = LAYER.predict([make_doc(left, right)])[0]
    assert not numpy.allclose(vectors[0], vectors[1])


def test_a_long_word_is_cut_in_its_middle():
    layer = make_layer(max_length=6)
    cut, same, other = layer.predict([make_doc("abcXXXXdef", "abcYYdef", "abcdeg")])[0]
    assert numpy.array_equal(cut, same)
    assert not numpy.allclose(cut, other)
    assert extract_characters(layer, [make_doc("x" * 300_000)]).lengths.tolist() == [8]


def test_the_gradient_is_that_of_finite_differences():
    layer = make_layer()
    docs = [make_doc("one", "two"), make_doc("three")]
    outputs, backprop = layer(docs, is_train=True)
    weights = [numpy.random.default_rng(0).normal(size=array.shape).astype("f") for array in outputs]
    backprop(weights)
    node = next(node for node in layer.walk() if node.name == "maxout")
    W, dW = node.get_param("W"), node.get_grad("W")
    step = 1e-2
    for index in [(0, 0, 0), (2, 1, 3), (5, 1, 14)]:
        original = float(W[index])
        sums = []
        for value in (original + step, original - step):
            W[index] = value
            sums.append(sum(float((a * b).sum()) for a, b in zip(layer.predict(docs), weights, strict=True)))
        W[index] = original
        assert dW[index] == pytest.approx((sums[0] - sums[1]) / (2 * step), abs=2e-2)


def test_a_layer_loads_what_it_saved():
    other = CharCNN(width=WIDTH, char_width=5, rows=50)
    other.from_bytes(LAYER.to_bytes())
    docs = [make_doc("any", "words")]
    assert numpy.array_equal(other.predict(docs)[0], LAYER.predict(docs)[0])
