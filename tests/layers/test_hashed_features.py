"""The vectors of attributes: beside one another, each from its own table."""

import numpy
import pytest
import spacy
from numpy.testing import assert_allclose
from spacy.tokens import Doc

from spacy_bilstm_crf.layers.hashed_features import HashedFeatures

VOCAB = spacy.blank("en").vocab
ATTRS, WIDTHS = ["NORM", "SUFFIX", "SHAPE"], [4, 2, 3]


def make_layer(docs, attrs=tuple(ATTRS), widths=tuple(WIDTHS)):
    layer = HashedFeatures(attrs=attrs, widths=widths, rows=[20000] * len(attrs))
    layer.initialize(X=docs)
    return layer


def test_words_that_share_an_attribute_share_its_part():
    docs = [Doc(VOCAB, words=["walked", "Talked"]), Doc(VOCAB, words=[]), Doc(VOCAB, words=["Walked"])]
    layer = make_layer(docs)
    assert layer.get_dim("nO") == 9
    (walked, talked), none, (capital,) = layer.predict(docs)
    assert none.shape == (0, 9)
    norm, suffix, shape = slice(0, 4), slice(4, 6), slice(6, 9)
    # "walked" and "Walked": one norm, one suffix, two shapes; "Talked": another norm.
    assert_allclose(walked[norm], capital[norm])
    assert_allclose(talked[suffix], walked[suffix])
    assert_allclose(talked[shape], capital[shape])
    assert not numpy.allclose(walked[norm], talked[norm])
    assert not numpy.allclose(walked[shape], capital[shape])


def test_each_attribute_learns_for_itself():
    docs = [Doc(VOCAB, words=["walked", "Talked"])]
    layer = make_layer(docs)
    before = layer.predict(docs)[0].copy()
    _, backprop = layer.begin_update(docs)
    gradient = numpy.zeros((2, 9), dtype="float32")
    gradient[0, :4] = 1.0
    backprop([gradient])
    layer.finish_update(lambda key, weights, gradient: (weights - 0.1 * gradient, gradient * 0))
    after = layer.predict(docs)[0]
    # Four rows of the table are summed, and each moves.
    assert_allclose(after[0, :4], before[0, :4] - 0.4, atol=1e-6)
    assert_allclose(after[:, 4:], before[:, 4:])
    assert_allclose(after[1], before[1])


@pytest.mark.parametrize("n_attrs", [1, 2])
def test_any_number_of_attributes(n_attrs):
    docs = [Doc(VOCAB, words=["a", "b"])]
    layer = make_layer(docs, ATTRS[:n_attrs], WIDTHS[:n_attrs])
    assert layer.predict(docs)[0].shape == (2, sum(WIDTHS[:n_attrs]))


def test_values_start_near_the_size_of_pretrained_vectors():
    docs = [Doc(VOCAB, words=[f"w{i}" for i in range(500)])]
    values = HashedFeatures(attrs=["ORTH"], widths=[32], rows=[5000])
    values.initialize(X=docs)
    assert values.predict(docs)[0].std() == pytest.approx(0.58, abs=0.05)
