"""Rare and unseen words: which the layer knows, and what training makes of the others."""

import numpy
import pytest
import spacy
from spacy.ml.models import MultiHashEmbed
from spacy.tokens import Doc

from spacy_bilstm_crf.layers.word_form_embed import WordFormEmbed, learn_vocabulary

VOCAB = spacy.blank("en").vocab


def make_docs(*texts):
    return [Doc(VOCAB, words=text.split()) for text in texts]


def make_layer(docs, attrs=("NORM",), **kwargs):
    embed = MultiHashEmbed(width=8, attrs=list(attrs), rows=[200] * len(attrs), include_static_vectors=False)
    layer = WordFormEmbed(embed, **kwargs)
    learn_vocabulary(layer, docs)
    layer.initialize(X=docs)
    return layer


@pytest.mark.parametrize(("min_count", "known"), [(1, ["a", "b", "c"]), (2, ["a", "b"]), (3, ["a"]), (4, [])])
def test_words_are_known_from_a_number_of_occurrences_on(min_count, known):
    layer = make_layer(make_docs("a b a", "b a c"), min_count=min_count)
    assert layer.attrs["known"].tolist() == sorted(VOCAB.strings[word] for word in known)


def test_unknown_words_look_alike_and_known_ones_do_not():
    layer = make_layer(make_docs("red green red green once"), min_count=2)
    red, green, once, never = layer.predict(make_docs("red green once never"))[0]
    assert numpy.array_equal(once, never)
    assert not numpy.array_equal(red, green)
    assert not numpy.array_equal(red, never)


def test_unknown_words_keep_their_shape():
    layer = make_layer(make_docs("red red"), attrs=("NORM", "SHAPE"), min_count=2)
    lower, other_lower, title = layer.predict(make_docs("seen heard Spoken"))[0]
    assert numpy.array_equal(lower, layer.predict(make_docs("xxxx"))[0][0])
    assert not numpy.array_equal(other_lower, title)


def test_no_words_are_listed_for_a_streamed_corpus():
    layer = make_layer(make_docs("red red"), min_count=0)
    assert not len(layer.attrs["known"])
    never, ever = layer.predict(make_docs("never ever"))[0]
    assert not numpy.array_equal(never, ever)


def test_without_a_vocabulary_every_word_is_its_own():
    docs = make_docs("red green")
    layer = WordFormEmbed(MultiHashEmbed(width=8, attrs=["NORM"], rows=[200], include_static_vectors=False))
    layer.initialize(X=docs)
    never, ever = layer.predict(make_docs("never ever"))[0]
    assert not numpy.array_equal(never, ever)


@pytest.mark.parametrize("rate", [0.0, 0.25, 1.0])
def test_training_makes_a_share_of_the_known_words_unseen(rate):
    docs = make_docs(" ".join(["red"] * 2000))
    layer = make_layer(docs, min_count=1, unseen_rate=rate)
    unseen = layer.predict(make_docs("never"))[0][0]
    vectors, _ = layer(docs, is_train=True)
    share = float((vectors[0] == unseen).all(axis=1).mean())
    assert share == pytest.approx(rate, abs=0.05)


def test_prediction_makes_no_known_word_unseen():
    docs = make_docs("red green " * 100)
    layer = make_layer(docs, min_count=1, unseen_rate=1.0)
    red, green = layer.predict(docs)[0][:2]
    assert not numpy.array_equal(red, green)


def test_hiding_words_leaves_the_documents_as_they_are():
    docs = make_docs("red green")
    layer = make_layer(docs, unseen_rate=1.0)
    layer(docs, is_train=True)
    assert [token.norm_ for token in docs[0]] == ["red", "green"]


def test_what_is_known_is_saved_with_the_model():
    docs = make_docs("red green red green once")
    layer = make_layer(docs, min_count=2)
    other = WordFormEmbed(MultiHashEmbed(width=8, attrs=["NORM"], rows=[200], include_static_vectors=False))
    other.from_bytes(layer.to_bytes())
    text = make_docs("red once never")
    assert numpy.array_equal(other.predict(text)[0], layer.predict(text)[0])
