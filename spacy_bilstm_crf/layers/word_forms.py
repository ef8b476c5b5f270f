"""The distinct word forms of a batch, as rows of attributes."""

from collections.abc import Sequence
from typing import Any, cast

import numpy
from numpy.typing import NDArray
from spacy.attrs import ORTH, intify_attr
from spacy.tokens import Doc
from spacy.vocab import Vocab
from thinc.api import Model

KeyArray = NDArray[numpy.uint64]


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
