"""Embed characters by themselves, by the pairs and words that they form, and by the classes around them.

What gets a vector is listed once, from the training data. Characters and pairs that are not listed share one vector,
which is trained on what is rare and on what is made unknown at random.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import cast

import numpy
from spacy.tokens import Doc
from spacy.util import minibatch
from thinc.api import Model
from thinc.initializers import uniform_init
from thinc.types import Floats2d, Ints1d

from ..types import BoolArray, EmbedModel, IntArray
from .char_features import N_CONTEXTS, N_PLACES, CharacterKeys
from .word_forms import KeyArray, find_keys

_DOCS_AT_ONCE = 1000


def CharNgramEmbed(
    *,
    width: int = 48,
    pair_width: int = 24,
    class_width: int = 8,
    word_width: int = 8,
    min_count: int = 2,
    unknown_rate: float = 0.3,
    unknown_word_rate: float = 0.1,
) -> EmbedModel:
    """Embed characters, the pairs and words they form, and the classes around them.

    A token of several characters is read as one: numbers by their length, words in small letters. Wide and narrow forms
    of a character (`，` and `,`) are one, as are the full stops `。` and `.`. Words are listed if the pipe knows them
    in the training data. There, one that occurs but once counts as unknown, as it would be if the text were new.

    width (int): Width of the vector of a character.
    pair_width (int): Width of the vector of the pair with the character before, and of that with the one behind.
    class_width (int): Width of the vector of the classes of a character and its neighbours.
    word_width (int): Width of the vectors of the longest listed words that a character begins, ends or is inside of.
    min_count (int): How often a character or pair must occur in the training data to have a vector of its own.
    unknown_rate (float): Share of the pairs that are read as unknown in training.
    unknown_word_rate (float): Share of the words that are overlooked in training.
    RETURNS (Model): From documents to one array for each.
        (n_tokens, width + 2 * pair_width + class_width + 3 * word_width) float32
    """
    return Model(
        "char_ngram_embed",
        forward,
        init=init,
        dims={"nO": width + 2 * pair_width + class_width + 3 * word_width},
        params={"characters": None, "pairs": None, "classes": None, "words": None},
        attrs={
            "widths": [width, pair_width, class_width, word_width],
            "min_count": min_count,
            "unknown_rate": unknown_rate,
            "unknown_word_rate": unknown_word_rate,
            "known": {},
            "learn_vocabulary": learn_vocabulary,
            "learn_words": learn_words,
        },
    )


def learn_vocabulary(model: EmbedModel, docs: Iterable[Doc]) -> None:
    """List the characters and pairs that get a vector.

    model (Model): The layer, before it is initialized.
    docs (Iterable[Doc]): The documents of the training data.
    """
    counts: dict[str, Counter[int]] = {"characters": Counter(), "pairs": Counter()}
    for batch in minibatch(docs, _DOCS_AT_ONCE):
        keys = CharacterKeys.from_docs(list(batch))
        _count(counts["characters"], keys.characters)
        _count(counts["pairs"], keys.pairs())
    for name, count in counts.items():
        model.attrs["known"][name] = _frequent(count, model.attrs["min_count"])


def learn_words(model: EmbedModel, segmented: Iterable[tuple[list[Doc], BoolArray]]) -> None:
    """List the words of the training data.

    model (Model): The layer.
    segmented (Iterable): Batches of documents of characters, and which of all their characters begin a word.
        (n_tokens,) bool
    """
    count: Counter[int] = Counter()
    for docs, is_start in segmented:
        _count(count, CharacterKeys.from_docs(docs).words(is_start))
    model.attrs["known"]["words"] = _frequent(count, 1)
    model.attrs["known"]["repeated_words"] = _frequent(count, 2)


def _count(count: Counter[int], keys: KeyArray) -> None:
    distinct, n_times = numpy.unique(keys, return_counts=True)
    count.update(dict(zip(distinct.tolist(), n_times.tolist(), strict=True)))


def _frequent(count: Counter[int], least: int) -> KeyArray:
    return numpy.array(sorted(key for key, n_times in count.items() if n_times >= least), dtype="uint64")


def init(model: EmbedModel, X: list[Doc] | None = None, Y: object = None) -> None:
    """Make the vectors: one for what is unknown, and one for each listed character and pair."""
    if "characters" not in model.attrs["known"]:
        learn_vocabulary(model, X or [])
    known = model.attrs["known"]
    n_rows = [1 + len(known["characters"]), 1 + len(known["pairs"]), N_CONTEXTS, N_PLACES]
    for name, rows, width in zip(model.param_names, n_rows, model.attrs["widths"], strict=True):
        model.set_param(name, uniform_init(model.ops, (rows, width), lo=-0.1, hi=0.1))


def forward(
    model: EmbedModel, docs: list[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list[Doc]]]:
    """Look the vectors up and put them side by side."""
    lengths = [len(doc) for doc in docs]
    columns = _find_rows(model, CharacterKeys.from_docs(docs), is_train)
    X = model.ops.xp.concatenate([model.get_param(name)[rows] for name, rows in columns], axis=1)

    def backprop(d_splits: list[Floats2d]) -> list[Doc]:
        dX = model.ops.flatten(d_splits)
        first = 0
        for name, rows in columns:
            d_vectors = model.ops.alloc2f(*model.get_param(name).shape)
            last = first + d_vectors.shape[1]
            model.ops.scatter_add(d_vectors, rows, model.ops.as_contig(dX[:, first:last]))
            model.inc_grad(name, d_vectors)
            first = last
        return []

    return model.ops.unflatten(cast(Floats2d, X), cast(Ints1d, lengths)), backprop


def _find_rows(model: EmbedModel, keys: CharacterKeys, is_train: bool) -> list[tuple[str, Ints1d]]:
    """List the tables to look in, and the rows to take from them: row 0 for what is unknown."""
    known = model.attrs["known"]
    pairs = find_keys(known["pairs"], keys.pairs()) + 1
    if is_train:
        pairs[numpy.random.random(len(pairs)) < model.attrs["unknown_rate"]] = 0  # noqa: NPY002
    columns: list[tuple[str, IntArray]] = [
        ("characters", find_keys(known["characters"], keys.characters[keys.rows]) + 1),
        ("pairs", pairs[keys.rows - 1]),
        ("pairs", pairs[keys.rows]),
        ("classes", keys.contexts()),
    ]
    words = known.get("repeated_words" if is_train else "words", numpy.zeros(0, dtype="uint64"))
    unknown_rate = model.attrs["unknown_word_rate"] if is_train else 0.0
    columns.extend(("words", places) for places in keys.places(words, unknown_rate=unknown_rate))
    return [(name, model.ops.asarray1i(cast(Ints1d, rows))) for name, rows in columns]
