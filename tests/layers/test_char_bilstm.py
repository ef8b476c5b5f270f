"""Vectors of words from a BiLSTM over their characters, alone and inside of other embeddings."""

import copy
import pickle

import numpy
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.ml.models import MultiHashEmbed
from spacy.tokens import Doc
from thinc.api import Adam, concatenate

from spacy_bilstm_crf.layers.char_bilstm import CharBiLSTM
from spacy_bilstm_crf.layers.word_form_embed import WordFormEmbed, cached_forms

VOCAB = spacy.blank("en").vocab
HIDDEN = 4
WIDTH = 2 * HIDDEN
WORDS = ["a", " ", "\n", "👩‍👩‍👧", "🇳🇴", "naïve", "東京", "กรุงเทพ", "x" * 10_000, "U.S.", "\u200d", "don't"]


def make_doc(*words):
    return Doc(VOCAB, words=list(words))


def make_layer(**kwargs):
    layer = CharBiLSTM(hidden_width=HIDDEN, char_width=5, rows=50, **kwargs)
    layer.initialize(X=[make_doc("some", "words")])
    return layer


def make_beside_hashes(**kwargs):
    """The layer beside spaCy's hash embeddings, each word form once."""
    hashes = MultiHashEmbed(width=6, attrs=["NORM", "SHAPE"], rows=[50, 50], include_static_vectors=False)
    characters = CharBiLSTM(hidden_width=HIDDEN, char_width=5, rows=50)
    layer = WordFormEmbed(concatenate(hashes, characters), **kwargs)
    layer.initialize(X=[make_doc("some", "words")])
    return layer


LAYER = make_layer()


def test_one_vector_a_token_and_one_array_a_document():
    docs = [make_doc("one"), make_doc(), make_doc("two", "words", "words")]
    vectors = LAYER.predict(docs)
    assert [array.shape for array in vectors] == [(1, WIDTH), (0, WIDTH), (3, WIDTH)]
    assert all(array.dtype == "float32" for array in vectors)
    assert numpy.array_equal(vectors[2][1], vectors[2][2])
    assert [array.shape for array in LAYER.predict([make_doc()])] == [(0, WIDTH)]
    assert LAYER.predict([]) == []


@given(st.lists(st.text(min_size=1, max_size=50) | st.sampled_from(WORDS), min_size=1, max_size=30))
@settings(max_examples=60)
def test_a_word_has_the_same_vector_in_any_company(words):
    together = LAYER.predict([make_doc(*words)])[0]
    alone = numpy.concatenate([LAYER.predict([make_doc(word)])[0] for word in words])
    numpy.testing.assert_allclose(together, alone, atol=1e-5)
    numpy.testing.assert_allclose(LAYER([make_doc(*words)], is_train=True)[0][0], alone, atol=1e-5)


@pytest.mark.parametrize(("left", "right"), [("cat", "cats"), ("ab", "ba"), ("東京", "京都"), ("👩‍👩‍👧", "👩‍👧‍👩")])
def test_different_characters_give_different_vectors(left, right):
    vectors = LAYER.predict([make_doc(left, right)])[0]
    assert not numpy.allclose(vectors[0], vectors[1])


def test_a_long_word_is_cut_in_its_middle():
    cut, same, other = make_layer(max_length=6).predict([make_doc("abcXXXXdef", "abcYYdef", "abcdeg")])[0]
    numpy.testing.assert_allclose(cut, same, atol=1e-6)
    assert not numpy.allclose(cut, other)


def get_weight(layer, name):
    """The array of a weight, and a function that gives its gradient."""
    if name == "E":
        node = next(node for node in layer.walk() if node.has_param("E"))
        return node.get_param("E"), lambda: node.get_grad("E")
    network = next(shim for node in layer.walk() for shim in node.shims).network
    parameter = dict(network.named_parameters())[name]
    return parameter.detach().numpy(), lambda: parameter.grad.numpy()


@pytest.mark.parametrize("name", ["E", "forward_lstm.weight_hh_l0", "backward_lstm.weight_ih_l0"])
def test_the_gradient_is_that_of_finite_differences(name):
    layer = make_layer()
    docs = [make_doc("one", "two"), make_doc(), make_doc("threefold")]
    outputs, backprop = layer(docs, is_train=True)
    factors = [numpy.random.default_rng(0).normal(size=array.shape).astype("f") for array in outputs]
    backprop(factors)
    W, get_gradient = get_weight(layer, name)
    dW = get_gradient()
    step = 1e-2
    largest = numpy.argsort(numpy.abs(dW), axis=None)[-5:]
    for index in zip(*numpy.unravel_index(largest, dW.shape), strict=True):
        original = float(W[index])
        sums = []
        for value in (original + step, original - step):
            W[index] = value
            sums.append(sum(float((a * b).sum()) for a, b in zip(layer.predict(docs), factors, strict=True)))
        W[index] = original
        assert dW[index] == pytest.approx((sums[0] - sums[1]) / (2 * step), abs=5e-3, rel=2e-2)


@pytest.mark.parametrize("load", ["bytes", "disk", "deepcopy", "pickle"])
def test_round_trips_keep_vectors_to_the_last_bit(load, tmp_path):
    other = CharBiLSTM(hidden_width=HIDDEN, char_width=5, rows=50)
    if load == "bytes":
        other.from_bytes(LAYER.to_bytes())
    elif load == "disk":
        LAYER.to_disk(tmp_path / "model")
        other.from_disk(tmp_path / "model")
    else:
        other = copy.deepcopy(LAYER) if load == "deepcopy" else pickle.loads(pickle.dumps(LAYER))
    docs = [make_doc(*WORDS)]
    assert numpy.array_equal(other.predict(docs)[0], LAYER.predict(docs)[0])


def test_what_is_stored_holds_no_pickle():
    (shim,) = [shim for node in LAYER.walk() for shim in node.shims]
    data = shim.to_bytes()
    assert b"forward_lstm.weight_hh_l0" in data[:1000]
    assert not data.startswith((b"\x80", b"PK"))
    with pytest.raises(ValueError, match=r"CRF202.*LastStateBiLSTM"):
        shim.from_bytes(data[:-1])


def test_weights_of_another_width_are_refused():
    wide = CharBiLSTM(hidden_width=HIDDEN + 1, char_width=5, rows=50)
    with pytest.raises(ValueError, match=r"nO.*from 10 to 8"):
        wide.from_bytes(LAYER.to_bytes())


def test_without_weights_it_says_so():
    with pytest.raises(ValueError, match="CRF201"):
        CharBiLSTM(hidden_width=HIDDEN).layers[0].layers[1].shims[0].network  # noqa: B018


# Inside of an embedding that remembers word forms.

DOCS = [make_doc("the", "cat", "sat"), make_doc(), make_doc("the", "東京", "👩‍👩‍👧", "cat")]


def update(layer, optimizer):
    vectors, backprop = layer(DOCS, is_train=True)
    backprop([numpy.ones_like(X) for X in vectors])
    layer.finish_update(optimizer)


def assert_fresh(layer):
    """What the layer says, cache or not, is what its embedding says now."""
    for received, expected in zip(layer.predict(DOCS), layer.layers[0].predict(DOCS), strict=True):
        numpy.testing.assert_allclose(received, expected, atol=1e-5)


def get_network(layer):
    return next(shim for node in layer.walk() for shim in node.shims).network


def test_word_forms_are_remembered_with_their_characters():
    layer = make_beside_hashes()
    assert layer.get_dim("nO") == 6 + WIDTH
    assert_fresh(layer)
    assert cached_forms(layer) == 5
    vectors, _ = layer(DOCS, is_train=True)
    for received, expected in zip(layer.predict(DOCS), vectors, strict=True):
        numpy.testing.assert_allclose(received, expected, atol=1e-5)


def test_an_update_empties_the_cache():
    layer = make_beside_hashes()
    before = layer.predict(DOCS)[0].copy()
    update(layer, Adam(0.01))
    assert_fresh(layer)
    assert not numpy.allclose(layer.predict(DOCS)[0][:, 6:], before[:, 6:])


@pytest.mark.parametrize("name", ["forward_lstm.weight_hh_l0", "backward_lstm.bias_ih_l0"])
def test_torch_weights_written_in_place_empty_the_cache(name):
    layer = make_beside_hashes()
    before = layer.predict(DOCS)[0].copy()
    dict(get_network(layer).named_parameters())[name].data.mul_(1.5).add_(0.1)
    assert_fresh(layer)
    assert not numpy.allclose(layer.predict(DOCS)[0], before)


def test_averages_empty_the_cache_when_they_come_and_when_they_go():
    layer = make_beside_hashes()
    optimizer = Adam(0.1, use_averages=True)
    for _ in range(3):
        update(layer, optimizer)
    current = layer.predict(DOCS)[0].copy()
    with layer.use_params(optimizer.averages):
        assert_fresh(layer)
        assert not numpy.allclose(layer.predict(DOCS)[0][:, 6:], current[:, 6:])
    assert_fresh(layer)
    numpy.testing.assert_allclose(layer.predict(DOCS)[0], current, atol=1e-6)


def test_loaded_weights_empty_the_cache():
    layer, other = make_beside_hashes(), make_beside_hashes()
    update(other, Adam(0.1))
    layer.predict(DOCS)
    layer.from_bytes(other.to_bytes())
    assert_fresh(layer)
    numpy.testing.assert_array_equal(layer.predict(DOCS)[0], other.predict(DOCS)[0])


def test_a_network_loaded_into_the_shim_alone_empties_the_cache():
    layer, other = make_beside_hashes(), make_beside_hashes()
    before = layer.predict(DOCS)[0].copy()
    shims = [next(shim for node in model.walk() for shim in node.shims) for model in (layer, other)]
    shims[0].from_bytes(shims[1].to_bytes())
    assert_fresh(layer)
    assert not numpy.allclose(layer.predict(DOCS)[0], before)
