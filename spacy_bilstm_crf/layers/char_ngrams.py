"""Embed characters by themselves, by the pairs they form with their neighbours, and by the classes around them.

What gets a vector is listed once, from the training data. Everything that is not on the lists shares one vector, which
is trained on what is rare and on what is made unknown at random.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple, cast

import numpy
from spacy.attrs import ORTH
from spacy.strings import get_string_id
from spacy.tokens import Doc
from spacy.util import minibatch
from thinc.api import Model
from thinc.initializers import uniform_init
from thinc.types import Floats2d, Ints1d

from ..characters import DIGIT, N_CLASSES, character_class
from ..types import EmbedModel, IntArray
from .word_forms import KeyArray, hash_rows

# What stands in front of the first character of a document and behind its last one.
_BEGIN, _END = 1, 2
_EDGE_CLASS = N_CLASSES
# Three classes are read as digits of a number.
_BASE = N_CLASSES + 1
_MAX_DIGITS = 4
_DOCS_AT_ONCE = 1000


class _Characters(NamedTuple):
    """What is embedded of the characters of a batch, each document with an edge in front and behind.

    rows (IntArray): Where the characters are among the keys; the pair of a row is that with the next one.
        (n_tokens,) int64
    keys (KeyArray):
        (n_tokens + 2 * n_docs,) uint64
    pairs (KeyArray):
        (n_tokens + 2 * n_docs,) uint64
    contexts (IntArray): Classes of a character and its neighbours, as one number.
        (n_tokens,) int64
    """

    rows: IntArray
    keys: KeyArray
    pairs: KeyArray
    contexts: IntArray


def CharNgramEmbed(
    *, width: int = 64, pair_width: int = 32, class_width: int = 8, min_count: int = 2, unknown_rate: float = 0.3
) -> EmbedModel:
    """Embed characters, pairs of characters and the classes around them.

    A token of several characters is read as one: numbers by their length, words in small letters.

    width (int): Width of the vector of a character.
    pair_width (int): Width of the vector of the pair with the character before, and of that with the one behind.
    class_width (int): Width of the vector of the classes of a character and its neighbours.
    min_count (int): How often a character or pair must occur in the training data to have a vector of its own.
    unknown_rate (float): Share of the pairs that are read as unknown in training.
    RETURNS (Model): From documents to one (n_tokens, width + 2 * pair_width + class_width) array for each.
    """
    return Model(
        "char_ngram_embed",
        forward,
        init=init,
        dims={"nO": width + 2 * pair_width + class_width},
        params={"characters": None, "pairs": None, "classes": None},
        attrs={
            "widths": [width, pair_width, class_width],
            "min_count": min_count,
            "unknown_rate": unknown_rate,
            "known": {},
            "learn_vocabulary": learn_vocabulary,
        },
    )


def learn_vocabulary(model: EmbedModel, docs: Iterable[Doc]) -> None:
    """List the characters and pairs that get a vector.

    model (Model): The layer, before it is initialized.
    docs (Iterable[Doc]): The documents of the training data.
    """
    counts: dict[str, Counter[int]] = {"characters": Counter(), "pairs": Counter()}
    for batch in minibatch(docs, _DOCS_AT_ONCE):
        characters = _read(list(batch))
        for name, keys in (("characters", characters.keys), ("pairs", characters.pairs)):
            distinct, n_times = numpy.unique(keys, return_counts=True)
            counts[name].update(dict(zip(distinct.tolist(), n_times.tolist(), strict=True)))
    for name, count in counts.items():
        frequent = sorted(key for key, n_times in count.items() if n_times >= model.attrs["min_count"])
        model.attrs["known"][name] = numpy.array(frequent, dtype="uint64")


def init(model: EmbedModel, X: list[Doc] | None = None, Y: object = None) -> None:
    """Make the vectors: one for what is unknown, and one for each listed character and pair."""
    if not model.attrs["known"]:
        learn_vocabulary(model, X or [])
    known = model.attrs["known"]
    n_rows = {"characters": 1 + len(known["characters"]), "pairs": 1 + len(known["pairs"]), "classes": _BASE**3}
    for (name, rows), width in zip(n_rows.items(), model.attrs["widths"], strict=True):
        model.set_param(name, uniform_init(model.ops, (rows, width), lo=-0.1, hi=0.1))


def forward(
    model: EmbedModel, docs: list[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list[Doc]]]:
    """Look the vectors up and put them side by side."""
    lengths = [len(doc) for doc in docs]
    columns = _find_vectors(model, _read(docs), is_train)
    X = model.ops.xp.concatenate([model.get_param(name)[index] for name, index in columns], axis=1)

    def backprop(d_splits: list[Floats2d]) -> list[Doc]:
        dX = model.ops.flatten(d_splits)
        first = 0
        for name, index in columns:
            d_vectors = model.ops.alloc2f(*model.get_param(name).shape)
            last = first + d_vectors.shape[1]
            model.ops.scatter_add(d_vectors, index, model.ops.as_contig(dX[:, first:last]))
            model.inc_grad(name, d_vectors)
            first = last
        return []

    return model.ops.unflatten(cast(Floats2d, X), cast(Ints1d, lengths)), backprop


def _find_vectors(model: EmbedModel, characters: _Characters, is_train: bool) -> list[tuple[str, Ints1d]]:
    """List the tables to look in, and the rows to take from them."""
    known = model.attrs["known"]
    pairs = _look_up(known["pairs"], characters.pairs)
    if is_train:
        pairs[numpy.random.random(len(pairs)) < model.attrs["unknown_rate"]] = 0  # noqa: NPY002
    columns = [
        ("characters", _look_up(known["characters"], characters.keys[characters.rows])),
        ("pairs", pairs[characters.rows - 1]),
        ("pairs", pairs[characters.rows]),
        ("classes", characters.contexts),
    ]
    return [(name, model.ops.asarray1i(cast(Ints1d, index))) for name, index in columns]


def _look_up(known: KeyArray, keys: KeyArray) -> IntArray:
    """Find the row of each key's vector: 0 for what is not known."""
    if not len(known):
        return numpy.zeros(len(keys), dtype="int64")
    place = numpy.minimum(numpy.searchsorted(known, keys), len(known) - 1)
    return numpy.where(known[place] == keys, place + 1, 0)


def _read(docs: list[Doc]) -> _Characters:
    lengths = numpy.fromiter(map(len, docs), dtype="int64", count=len(docs))
    n_tokens, n_rows = int(lengths.sum()), int(lengths.sum()) + 2 * len(docs)
    rows = numpy.arange(n_tokens) + 2 * numpy.repeat(numpy.arange(len(docs)), lengths) + 1
    ends = numpy.cumsum(lengths + 2) - 1
    keys = numpy.full(n_rows, _BEGIN, dtype="uint64")
    keys[ends] = _END
    classes = numpy.full(n_rows, _EDGE_CLASS)
    if n_tokens:
        forms, form_of = numpy.unique(numpy.concatenate([doc.to_array([ORTH]) for doc in docs]), return_inverse=True)
        strings = docs[0].vocab.strings
        form_keys, form_classes = zip(*(_read_form(strings[orth]) for orth in forms.tolist()), strict=True)
        keys[rows] = numpy.array(form_keys, dtype="uint64")[form_of]
        classes[rows] = numpy.array(form_classes)[form_of]
    pairs = hash_rows(numpy.stack((keys, numpy.roll(keys, -1)), axis=1))
    contexts = (classes[rows - 1] * _BASE + classes[rows]) * _BASE + classes[rows + 1]
    return _Characters(rows, keys, pairs, contexts)


@lru_cache(maxsize=50_000)
def _read_form(text: str) -> tuple[int, int]:
    """Return the key of a character, or of what is read as one, and its class."""
    kind = character_class(text[0])
    if len(text) > 1:
        text = "9" * min(len(text), _MAX_DIGITS) if kind == DIGIT else text.lower()
    return get_string_id(text), kind
