"""Embedding each word form once must give what embedding each token gives."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.attrs import IDS
from spacy.ml.models import CharacterEmbed, MultiHashEmbed
from spacy.tokens import Doc
from spacy.vectors import Vectors
from thinc.api import Adam

from spacy_bilstm_crf.layers.word_form_embed import WordFormEmbed, cached_forms
from spacy_bilstm_crf.layers.word_forms import hash_rows, read_attrs

WIDTH = 8
WORDS = [
    "the",
    "The",
    "THE",
    "cat",
    "Cat",
    "sat",
    "on",
    "mat",
    ".",
    " ",
    "\n",
    "naïve",
    "猫",
    "x" * 500,
    "U.S.",
    "1,000",
]


def make_embed(name):
    if name == "characters":
        return CharacterEmbed(width=WIDTH, rows=50, nM=4, nC=3, include_static_vectors=False, feature="LOWER")
    attrs = {
        "default": ["NORM", "PREFIX", "SUFFIX", "SHAPE"],
        "one": ["ORTH"],
        "no_orth": ["LOWER"],
        "context": ["ORTH", "SPACY", "IS_SPACE"],
        "vectors": ["NORM", "SHAPE"],
    }[name]
    return MultiHashEmbed(width=WIDTH, attrs=attrs, rows=[50] * len(attrs), include_static_vectors=name == "vectors")


# Layers that keep their cache over the examples of a test.
VOCAB = spacy.blank("en").vocab
CACHED = {}
EMBEDS = ["default", "one", "no_orth", "context", "vectors", "characters"]


@pytest.fixture(scope="module")
def vocab():
    vocab = spacy.blank("en").vocab
    data = numpy.random.default_rng(0).standard_normal((4, 5)).astype("float32")
    vocab.vectors = Vectors(strings=vocab.strings, data=data, keys=["the", "cat", "sat", "mat"])
    return vocab


def make_docs(vocab, lengths, seed=0):
    rng = numpy.random.default_rng(seed)
    return [
        Doc(vocab, words=rng.choice(WORDS, size=n).tolist(), spaces=(rng.random(n) < 0.5).tolist()) for n in lengths
    ]


def make_layer(vocab, name="default", **kwargs):
    layer = WordFormEmbed(make_embed(name), **kwargs)
    layer.initialize(X=make_docs(vocab, [20]))
    return layer


def get_gradients(model):
    return {
        (position, name): node.get_grad(name)
        for position, node in enumerate(model.walk())
        for name in node.param_names
        if node.has_grad(name)
    }


def assert_fresh(layer, docs):
    """What the layer says, cache or not, is what its embedding says now."""
    for received, expected in zip(layer.predict(docs), layer.layers[0].predict(docs), strict=True):
        numpy.testing.assert_allclose(received, expected, atol=1e-6)


@pytest.mark.parametrize("name", EMBEDS)
@pytest.mark.parametrize("is_train", [True, False])
def test_vectors_are_those_of_the_embedding(vocab, name, is_train):
    layer = make_layer(vocab, name)
    docs = make_docs(vocab, [7, 0, 1, 30])
    received, _ = layer(docs, is_train)
    expected, _ = layer.layers[0](docs, is_train)
    assert [X.shape for X in received] == [(len(doc), WIDTH) for doc in docs]
    for X, Y in zip(received, expected, strict=True):
        numpy.testing.assert_allclose(X, Y, atol=1e-6)


# Not "characters": spaCy's layer itself forgets all but one of the tokens that share a character at one place.
@pytest.mark.parametrize("name", ["default", "one", "no_orth", "context", "vectors"])
def test_parameter_gradients_are_those_of_the_embedding(vocab, name):
    layer = make_layer(vocab, name)
    plain = make_embed(name)
    plain.initialize(X=make_docs(vocab, [20]))
    plain.from_bytes(layer.layers[0].to_bytes())
    docs = make_docs(vocab, [7, 0, 1, 30])
    rng = numpy.random.default_rng(1)
    gradient = [rng.standard_normal((len(doc), WIDTH)).astype("float32") for doc in docs]
    _, backprop = layer(docs, is_train=True)
    backprop([array.copy() for array in gradient])
    _, plain_backprop = plain(docs, is_train=True)
    plain_backprop([array.copy() for array in gradient])
    received, expected = get_gradients(layer.layers[0]), get_gradients(plain)
    assert received
    assert received.keys() == expected.keys()
    for key, array in expected.items():
        numpy.testing.assert_allclose(received[key], array, rtol=1e-4, atol=1e-5, err_msg=str(key))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=8), min_size=1, max_size=5), st.integers(0, 20))
def test_any_batches_with_any_cache(texts, cache_size):
    layer = CACHED.get(cache_size) or make_layer(VOCAB, cache_size=cache_size)
    CACHED[cache_size] = layer
    assert_fresh(layer, [Doc(VOCAB, words=words) for words in texts])
    assert cached_forms(layer) <= cache_size


def test_looking_vectors_up_by_another_attribute():
    vocab = spacy.blank("en").vocab
    data = numpy.ones((1, 5), dtype="float32")
    vocab.vectors = Vectors(strings=vocab.strings, data=data, keys=["the"], attr="LOWER")
    layer = WordFormEmbed(MultiHashEmbed(width=WIDTH, attrs=["SHAPE"], rows=[50], include_static_vectors=True))
    docs = [Doc(vocab, words=["The", "the", "tHe", "cat"])]
    layer.initialize(X=docs)
    assert_fresh(layer, docs)


def test_norms_of_one_text_may_differ():
    vocab = spacy.blank("en").vocab
    layer = make_layer(vocab)
    docs = [Doc(vocab, words=["gonna", "gonna"])]
    assert_fresh(layer, docs)
    docs[0][0].norm_ = "going to"
    assert_fresh(layer, docs)
    received = layer.predict(docs)[0]
    assert not numpy.allclose(received[0], received[1])


def test_distinct_forms_are_embedded_once(vocab):
    layer = make_layer(vocab)
    seen = []
    embed = layer.layers[0]
    forward = embed._func
    embed._func = lambda model, docs, is_train: (seen.append(len(docs[0])), forward(model, docs, is_train))[1]
    docs = [Doc(vocab, words=["the", "cat", "the", "cat", "sat"]), Doc(vocab, words=["the"])]
    layer.predict(docs)
    layer.predict(docs)
    assert seen == [3]
    layer(docs, is_train=True)
    assert seen == [3, 3]
    layer.predict([Doc(vocab, words=["the", "cat"])])
    assert seen == [3, 3, 2], "the training forward pass did not empty the cache"


@pytest.mark.parametrize("size", [0, 1, 3, 100])
def test_the_cache_is_bounded(vocab, size):
    layer = make_layer(vocab, cache_size=size)
    for seed in range(30):
        assert_fresh(layer, make_docs(vocab, [5, 9], seed=seed))
        assert cached_forms(layer) <= size
    if size == 100:
        assert cached_forms(layer) > 5


def update(layer, docs, optimizer, *, predict_before_finish=False):
    vectors, backprop = layer(docs, is_train=True)
    backprop([numpy.ones_like(X) for X in vectors])
    if predict_before_finish:
        layer.predict(docs)
    layer.finish_update(optimizer)


@pytest.mark.parametrize("predict_before_finish", [True, False])
@pytest.mark.parametrize("name", EMBEDS)
def test_an_update_in_place_empties_the_cache(vocab, name, predict_before_finish):
    layer = make_layer(vocab, name)
    docs = make_docs(vocab, [20])
    before = layer.predict(docs)[0].copy()
    update(layer, docs, Adam(0.01), predict_before_finish=predict_before_finish)
    assert_fresh(layer, docs)
    assert not numpy.allclose(layer.predict(docs)[0], before)


@pytest.mark.parametrize("name", EMBEDS)
def test_weights_written_in_place_empty_the_cache(vocab, name):
    layer = make_layer(vocab, name)
    docs = make_docs(vocab, [20])
    layer.predict(docs)
    for node in layer.walk():
        for param in node.param_names:
            node.get_param(param)[...] *= 1.5  # the arrays stay the same objects
    assert_fresh(layer, docs)


def test_averages_empty_the_cache_when_they_come_and_when_they_go(vocab):
    layer = make_layer(vocab)
    docs = make_docs(vocab, [20])
    optimizer = Adam(0.1, use_averages=True)
    for _ in range(3):
        update(layer, docs, optimizer)
    current = layer.predict(docs)[0].copy()
    with layer.use_params(optimizer.averages):
        assert_fresh(layer, docs)
        assert not numpy.allclose(layer.predict(docs)[0], current)
    assert_fresh(layer, docs)
    numpy.testing.assert_allclose(layer.predict(docs)[0], current, atol=1e-6)


def test_loaded_weights_empty_the_cache(vocab):
    layer, other = make_layer(vocab), make_layer(vocab)
    docs = make_docs(vocab, [20])
    update(other, docs, Adam(0.1))
    layer.predict(docs)
    layer.from_bytes(other.to_bytes())
    assert_fresh(layer, docs)
    numpy.testing.assert_allclose(layer.predict(docs)[0], other.predict(docs)[0], atol=1e-6)


def test_other_word_vectors_empty_the_cache():
    vocab = spacy.blank("en").vocab
    layer = WordFormEmbed(MultiHashEmbed(width=WIDTH, attrs=["NORM"], rows=[50], include_static_vectors=True))
    docs = [Doc(vocab, words=["the", "cat"])]
    for fill in (1.0, 2.0):
        data = numpy.full((1, 5), fill, dtype="float32")
        vocab.vectors = Vectors(strings=vocab.strings, data=data, keys=["the"])
        if fill == 1.0:
            layer.initialize(X=docs)
        assert_fresh(layer, docs)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_begin_with_an_empty_cache(vocab, duplicate):
    layer = make_layer(vocab)
    docs = make_docs(vocab, [20])
    expected = layer.predict(docs)[0]
    other = duplicate(layer)
    assert cached_forms(layer)
    assert not cached_forms(other)
    numpy.testing.assert_array_equal(other.predict(docs)[0], expected)


def test_the_cache_is_not_stored(vocab):
    layer = make_layer(vocab)
    before = layer.to_bytes()
    layer.predict(make_docs(vocab, [20]))
    assert layer.to_bytes() == before


@pytest.mark.parametrize("size", [4, 1000])
def test_threads_share_the_cache(vocab, size):
    layer = make_layer(vocab, cache_size=size)
    batches = [make_docs(vocab, [6, 3], seed=seed) for seed in range(40)]
    expected = [layer.layers[0].predict(docs) for docs in batches]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            for received, wanted in zip(pool.map(layer.predict, batches), expected, strict=True):
                for X, Y in zip(received, wanted, strict=True):
                    numpy.testing.assert_allclose(X, Y, atol=1e-6)


@pytest.mark.parametrize("name", ["default", "characters", "vectors"])
def test_words_of_a_memory_zone_may_go(name):
    nlp = spacy.blank("en")
    nlp.vocab.vectors = Vectors(strings=nlp.vocab.strings, data=numpy.ones((1, 5), dtype="float32"), keys=["the"])
    layer = make_layer(nlp.vocab, name)
    for i in range(3):
        with nlp.memory_zone():
            assert_fresh(layer, [nlp.make_doc(f"unheard{i} words{i} die{i}")])
    assert_fresh(layer, [nlp.make_doc("unheard0 words1 the")])


def test_the_width_is_inferred(vocab):
    assert make_layer(vocab, "characters").get_dim("nO") == WIDTH


def test_attributes_that_are_read(vocab):
    expected = [IDS[name] for name in ("ORTH", "NORM", "PREFIX", "SUFFIX", "SHAPE")]
    assert read_attrs(list(make_embed("default").walk()), vocab) == expected


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), max_size=30))
def test_rows_have_one_key_each(rows):
    array = numpy.array(rows, dtype="uint64").reshape(-1, 3)
    keys = hash_rows(array).tolist()
    assert len(set(keys)) == len(set(rows))
    assert len(set(zip(keys, rows, strict=True))) == len(set(rows))
