"""The distinct word forms of a batch, as rows of attributes."""

from collections.abc import Sequence
from typing import Any, cast

import numpy
from numpy.typing import NDArray
from spacy.attrs import ORTH, intify_attr
from spacy.tokens import Doc
from spacy.vocab import Vocab
from thinc.api import Model

from ..types import IntArray

KeyArray = NDArray[numpy.uint64]
_MANY_KEYS = 1000
_PREFIX_BITS = 18
_PREFIX_SHIFT = numpy.uint64(64 - _PREFIX_BITS)


class WordForms:
    """The distinct rows of attributes in a batch, in a shape that embedding layers take for a Doc.

    vocab (Vocab): The vocabulary of the documents.
    attrs (list[int]): IDs of the attributes.
    rows (KeyArray): Their values.
        (n_forms, n_attrs) uint64
    """

    def __init__(self, vocab: Vocab, attrs: list[int], rows: KeyArray) -> None:
        self.vocab = vocab
        self.attrs = attrs
        self.rows = rows

    def __len__(self) -> int:
        """RETURNS (int): Number of distinct forms."""
        return len(self.rows)

    def to_array(self, attrs: int | str | Sequence[int | str]) -> KeyArray:
        """Return attributes of the forms, as `Doc.to_array` does.

        attrs (int | str | Sequence): One attribute or several.
        RETURNS (KeyArray): One value, or one row of values, for each form.
            (n_forms,) or (n_forms, n_attrs) uint64
        """
        if isinstance(attrs, (int, str)):
            return self.rows[:, self.attrs.index(intify_attr(attrs))]
        columns = [self.attrs.index(intify_attr(attr)) for attr in attrs]
        return self.rows[:, columns[0]] if len(columns) == 1 else self.rows[:, columns]

    def to_utf8_array(self, nr_char: int = -1) -> NDArray[Any]:
        """Return the characters of the forms, as `Doc.to_utf8_array` does.

        nr_char (int): Number of bytes for each form; -1 for the longest.
        RETURNS (ndarray): Bytes as spaCy lays them out.
            (n_forms, nr_char) uint8
        """
        return cast(NDArray[Any], Doc(self.vocab, words=self.texts).to_utf8_array(nr_char=nr_char))

    @property
    def texts(self) -> list[str]:
        """The text of each form."""
        strings = self.vocab.strings
        return [strings[orth] for orth in self.rows[:, self.attrs.index(ORTH)].tolist()]


def read_attrs(nodes: list[Model], vocab: Vocab | None = None) -> list[int]:
    """List the token attributes that an embedding reads.

    They are the text itself, what word vectors are looked up by, and those of its feature extractors.

    nodes (list[Model]): The layers of the embedding.
    vocab (Vocab | None): The vocabulary with the word vectors, if there are any.
    RETURNS (list[int]): Attribute IDs, each once.
    """
    columns = [intify_attr(attr) for node in nodes for attr in node.attrs.get("columns", ())]
    return list(dict.fromkeys([ORTH, getattr(getattr(vocab, "vectors", None), "attr", ORTH), *columns]))


def hash_rows(rows: KeyArray) -> KeyArray:
    """Hash rows of attribute values to one key each.

    rows (KeyArray): Values, most of them hashes of 64 bits already.
        (n_rows, n_attrs) uint64
    RETURNS (KeyArray): The keys.
        (n_rows,) uint64
    """
    keys = numpy.zeros(len(rows), dtype="uint64")
    for column in rows.T:
        # Multiply and fold, so that equal values in two columns do not cancel.
        keys = (keys ^ column) * numpy.uint64(0x9E3779B97F4A7C15)
        keys ^= keys >> numpy.uint64(32)
    return keys


def find_keys(known: KeyArray, keys: KeyArray) -> IntArray:
    """Find keys in a list.

    known (KeyArray): The list, sorted.
        (n_known,) uint64
    keys (KeyArray): What to look for.
        (n_keys,) uint64
    RETURNS (IntArray): Position of each key, -1 where it is not in the list.
        (n_keys,) int64
    """
    found = numpy.full(len(keys), -1)
    if not len(known):
        return found
    index = numpy.arange(len(keys))
    if len(keys) > _MANY_KEYS:
        # Keys are hashes: few share their first bits with one that is listed, and only those are searched for.
        begins_like = numpy.zeros(2**_PREFIX_BITS, dtype=bool)
        begins_like[known >> _PREFIX_SHIFT] = True
        index = index[begins_like[keys >> _PREFIX_SHIFT]]
    place = numpy.minimum(numpy.searchsorted(known, keys[index]), len(known) - 1)
    is_found = known[place] == keys[index]
    found[index[is_found]] = place[is_found]
    return found
