"""Embedding characters by what is listed of them."""

import copy

import numpy
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc
from thinc.api import Adam

from spacy_bilstm_crf.layers.char_features import MAX_WORD, CharacterKeys
from spacy_bilstm_crf.layers.char_ngrams import CharNgramEmbed, learn_vocabulary, learn_words
from spacy_bilstm_crf.layers.word_forms import find_keys

WIDTHS = {"width": 5, "pair_width": 3, "class_width": 2, "word_width": 2}
PARTS = {
    "characters": slice(0, 5),
    "before": slice(5, 8),
    "behind": slice(8, 11),
    "classes": slice(11, 13),
    "words": slice(13, 19),
}
VOCAB = spacy.blank("xx").vocab


def make_doc(text):
    return Doc(
        VOCAB,
        words=text.split("|") if "|" in text else list(text),
        spaces=None if not text else [False] * (text.count("|") + 1 if "|" in text else len(text)),
    )


def make_embed(texts, **settings):
    model = CharNgramEmbed(**{**WIDTHS, "min_count": 1, **settings})
    docs = [make_doc(text) for text in texts]
    learn_vocabulary(model, docs)
    model.initialize(X=docs[:1])
    return model


def vectors(model, text):
    return model.predict([make_doc(text)])[0]


def segmented(*sentences):
    """Documents of characters, and where their words begin."""
    is_start = [i == 0 for sentence in sentences for word in sentence.split() for i in range(len(word))]
    return [make_doc("".join(sentence.split())) for sentence in sentences], numpy.array(is_start, dtype=bool)


def part(model, text, name):
    return vectors(model, text)[:, PARTS[name]]


MODEL = make_embed(["甲乙甲乙", "乙甲乙丙"])


def test_each_part_looks_at_its_neighbourhood_alone():
    characters, before, behind = (part(MODEL, "甲乙甲乙甲", name) for name in ("characters", "before", "behind"))
    assert (characters[0] == characters[2]).all()
    assert (characters[0] != characters[1]).any()
    assert (before[1] == before[3]).all()
    # The pair behind a character is the one before the next.
    assert (behind[:-1] == before[1:]).all()
    # At the edges are pairs with nothing.
    assert (before[0] != before[2]).any()


def test_what_is_not_listed_shares_a_vector():
    rare = make_embed(["甲乙甲乙", "乙甲乙丙"], min_count=2)
    assert (part(rare, "丙", "characters") == part(rare, "丁", "characters")).all()
    assert (part(rare, "丙", "characters") != part(rare, "乙", "characters")).any()
    assert (part(rare, "乙丙", "before")[1] == part(rare, "甲丙", "before")[1]).all()
    assert (part(MODEL, "乙丙", "before")[1] != part(MODEL, "甲丙", "before")[1]).any()


def test_classes_tell_scripts_apart_where_characters_are_unknown():
    assert (part(MODEL, "戊", "classes") == part(MODEL, "己", "classes")).all()
    assert (part(MODEL, "戊", "classes") != part(MODEL, "の", "classes")).any()
    assert (part(MODEL, "戊戊戊", "classes")[1] != part(MODEL, "の戊戊", "classes")[1]).any()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2024|年", "1999|年", True),
        ("12|年", "1999|年", False),
        ("NBA|队", "nba|队", True),
        ("NBA|队", "CBA|队", False),
        # Text is written with wide or with narrow forms, a corpus often with one of them alone.
        ("ＮＢＡ|队", "nba|队", True),
        ("１２|年", "12|年", True),
        ("，|年", ",|年", True),
        ("。|年", ".|年", True),
        ("、|年", ",|年", False),
        ("ｶ|年", "カ|年", True),
    ],
)
def test_tokens_of_several_characters_are_one(one, other, same):
    model = make_embed([one, other])
    assert (vectors(model, one)[:, PARTS["characters"]] == vectors(model, other)[:, PARTS["characters"]]).all() == same


@given(st.lists(st.text(alphabet="甲乙丙丁1a ", max_size=6), max_size=5))
def test_documents_do_not_see_each_other(texts):
    together = MODEL.predict([make_doc(text) for text in texts])
    assert [len(X) for X in together] == [len(text) for text in texts]
    for text, X in zip(texts, together, strict=True):
        assert (vectors(MODEL, text) == X).all()


def test_gradients_are_those_of_the_rows():
    model = make_embed(["甲乙甲乙", "乙甲乙丙"], unknown_rate=0.0, unknown_word_rate=0.0)
    learn_words(model, [segmented("甲乙 甲乙 丙")])
    docs = [make_doc("甲乙甲"), make_doc(""), make_doc("丁")]
    Y, backprop = model(docs, is_train=True)
    rng = numpy.random.default_rng(0)
    dY = [rng.standard_normal(y.shape).astype("float32") for y in Y]
    backprop(dY)
    for name in ("characters", "pairs", "classes", "words"):
        gradient, table = model.get_grad(name), model.get_param(name)
        for row, column in [*zip(*numpy.nonzero(gradient), strict=True)][::7]:
            change = numpy.zeros_like(table)
            change[row, column] = 0.01
            model.set_param(name, table + change)
            moved = model.predict(docs)
            model.set_param(name, table)
            slope = (
                sum(float(((after - before) * d).sum()) for after, before, d in zip(moved, Y, dY, strict=True)) / 0.01
            )
            assert slope == pytest.approx(float(gradient[row, column]), abs=1e-3)


def test_pairs_are_made_unknown_in_training_alone():
    model = make_embed(["甲乙甲乙", "乙甲乙丙"], unknown_rate=1.0, unknown_word_rate=1.0)
    learn_words(model, [segmented("甲乙 甲乙")])
    doc = make_doc("甲乙")
    (trained,), _ = model([doc], is_train=True)
    unknown = part(model, "丁戊", "before")[1]
    assert (trained[1, PARTS["before"]] == unknown).all()
    assert (trained[1, PARTS["characters"]] == part(model, "甲乙", "characters")[1]).all()
    assert (part(model, "甲乙", "before")[1] != unknown).any()
    assert (trained[:, PARTS["words"]] == part(model, "丁戊", "words")).all()
    assert (part(model, "甲乙", "words") != part(model, "丁戊", "words")).any()


def test_vectors_are_learnt():
    model = make_embed(["甲乙甲乙"], unknown_rate=0.0)
    before = vectors(model, "甲乙")
    Y, backprop = model([make_doc("甲乙")], is_train=True)
    backprop([numpy.ones_like(y) for y in Y])
    model.finish_update(Adam(0.1))
    assert (vectors(model, "甲乙") != before).all()


def test_it_is_stored_with_what_is_listed():
    model = make_embed(["甲乙甲乙"], min_count=1)
    learn_words(model, [segmented("甲乙 甲乙")])
    stored = CharNgramEmbed(**WIDTHS).from_bytes(model.to_bytes())
    for other in (stored, copy.deepcopy(model), model.copy()):
        assert (vectors(other, "甲乙丙") == vectors(model, "甲乙丙")).all()


def test_without_training_data_everything_is_unknown():
    model = CharNgramEmbed(**WIDTHS)
    model.initialize()
    assert len(numpy.unique(part(model, "甲乙丙", "characters"), axis=0)) == 1


def test_the_vocabulary_is_that_of_all_documents():
    texts = [chr(0x4E00 + i) for i in range(2500)]
    model = CharNgramEmbed(**WIDTHS, min_count=1)
    learn_vocabulary(model, (make_doc(text) for text in texts))
    # The edges of documents are listed as well.
    assert len(model.attrs["known"]["characters"]) == 2500 + 2


def places(text, words):
    """For each character, the longest of the words that it begins, ends or is inside of."""
    known = numpy.unique(
        numpy.concatenate([CharacterKeys.from_docs(docs).words(s) for docs, s in map(segmented, words)])
    )
    begins, ends, middle = CharacterKeys.from_docs([make_doc("甲"), make_doc(text), make_doc("乙")]).places(known)
    return [
        (begins - 0)[1:-1].tolist(),
        (ends - MAX_WORD - 1)[1:-1].tolist(),
        (middle - 2 * MAX_WORD - 2)[1:-1].tolist(),
    ]


@pytest.mark.parametrize(
    ("text", "words", "begins", "ends", "middle"),
    [
        ("甲乙丙", ["甲乙"], [2, 0, 0], [0, 2, 0], [0, 0, 0]),
        ("甲乙丙", ["甲乙", "甲乙丙", "乙丙"], [3, 2, 0], [0, 2, 3], [0, 3, 0]),
        ("甲乙丙丁戊己", ["甲乙丙丁戊"], [5, 0, 0, 0, 0, 0], [0, 0, 0, 0, 5, 0], [0, 5, 5, 5, 0, 0]),
        ("甲乙", ["乙甲", "甲甲", "丙"], [0, 0], [0, 0], [0, 0]),
        # Words end with the document.
        ("乙丙", ["甲乙", "丙乙"], [0, 0], [0, 0], [0, 0]),
    ],
)
def test_words_that_stand_in_a_text_are_found(text, words, begins, ends, middle):
    assert places(text, words) == [begins, ends, middle]


@given(
    st.lists(st.text(alphabet="甲乙丙", min_size=1, max_size=7), min_size=1, max_size=6),
    st.text(alphabet="甲乙丙", min_size=1, max_size=9),
)
def test_words_are_found_as_strings_are(words, text):
    spans = [
        (i, j) for i in range(len(text)) for j in range(i + 2, min(len(text), i + MAX_WORD) + 1) if text[i:j] in words
    ]
    longest = lambda lengths: max(lengths, default=0)  # noqa: E731
    assert places(text, [" ".join(words)]) == [
        [longest(j - i for i, j in spans if i == k) for k in range(len(text))],
        [longest(j - i for i, j in spans if j - 1 == k) for k in range(len(text))],
        [longest(j - i for i, j in spans if i < k < j - 1) for k in range(len(text))],
    ]


def test_a_word_that_occurs_once_is_unknown_in_training_alone():
    model = make_embed(["甲乙丙丁"], unknown_rate=0.0, unknown_word_rate=0.0)
    unlisted = part(model, "甲乙丙丁", "words")
    learn_words(model, [segmented("甲乙 丙丁"), segmented("甲乙")])
    (trained,), _ = model([make_doc("甲乙丙丁")], is_train=True)
    listed = part(model, "甲乙丙丁", "words")
    assert (listed != unlisted).any(axis=1).all()
    assert (trained[:2, PARTS["words"]] == listed[:2]).all()
    assert (trained[2:, PARTS["words"]] == unlisted[2:]).all()


def test_it_learns_no_words_where_nothing_knows_them():
    assert "words" not in make_embed(["甲乙"]).attrs["known"]


@pytest.mark.parametrize("n_keys", [0, 1, 50, 5000])
@pytest.mark.parametrize("n_known", [0, 1, 40])
def test_keys_are_found_as_in_a_dictionary(n_keys, n_known):
    rng = numpy.random.default_rng(0)
    # Some that share their first bits, and some that are listed.
    keys = rng.integers(0, 100, n_keys).astype("uint64") * numpy.uint64(2**57) + rng.integers(0, 3, n_keys).astype(
        "uint64"
    )
    known = numpy.unique(rng.choice(keys, min(n_known, n_keys)) if n_keys else keys)
    places = {key: place for place, key in enumerate(known.tolist())}
    assert find_keys(known, keys).tolist() == [places.get(key, -1) for key in keys.tolist()]
