"""Keys of characters, of the pairs and words that they form, and of the classes around them, for a batch of documents.

Every document has an edge in front and one behind, so that no key reaches from one into another.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from unicodedata import normalize

import numpy
from spacy.attrs import ORTH
from spacy.strings import get_string_id
from spacy.tokens import Doc

from ..characters import DIGIT, N_CLASSES, character_class
from ..types import BoolArray, IntArray
from .word_forms import KeyArray, find_keys, hash_rows

MAX_WORD = 5
# Three classes are read as digits of a number.
_BASE = N_CLASSES + 1
N_CONTEXTS = _BASE**3
# A character is the first, the last or another one of a word that is listed, or of none.
N_PLACES = 3 * (MAX_WORD + 1)
_BEGIN, _END = 1, 2
_EDGE_CLASS = N_CLASSES
_MAX_DIGITS = 4
# Corpora write either the one or the other at the end of a sentence.
_FULL_STOPS = str.maketrans("。", ".")


@dataclass
class CharacterKeys:
    """What is embedded of the characters of a batch.

    rows (IntArray): Where the characters are among the keys, between the edges.
        (n_tokens,) int64
    characters (KeyArray): A key for each character and edge.
        (n_tokens + 2 * n_docs,) uint64
    classes (IntArray): The class of each character and edge.
        (n_tokens + 2 * n_docs,) int64
    """

    rows: IntArray
    characters: KeyArray
    classes: IntArray

    @classmethod
    def from_docs(cls, docs: Sequence[Doc]) -> "CharacterKeys":
        """Read documents.

        A token of several characters is read as one: numbers by their length, words in small letters. Wide and narrow
        forms of a character are one, as are the full stops of Chinese and of English.

        docs (Sequence[Doc]): The documents.
        RETURNS (CharacterKeys): The keys.
        """
        lengths = numpy.fromiter(map(len, docs), dtype="int64", count=len(docs))
        n_tokens = int(lengths.sum())
        rows = numpy.arange(n_tokens) + 2 * numpy.repeat(numpy.arange(len(docs)), lengths) + 1
        characters = numpy.full(n_tokens + 2 * len(docs), _BEGIN, dtype="uint64")
        characters[numpy.cumsum(lengths + 2) - 1] = _END
        classes = numpy.full(len(characters), _EDGE_CLASS)
        if n_tokens:
            orths = numpy.concatenate([doc.to_array([ORTH]) for doc in docs])
            forms, form_of = numpy.unique(orths, return_inverse=True)
            strings = docs[0].vocab.strings
            form_keys, form_classes = zip(*(_read_form(strings[orth]) for orth in forms.tolist()), strict=True)
            characters[rows] = numpy.array(form_keys, dtype="uint64")[form_of]
            classes[rows] = numpy.array(form_classes)[form_of]
        return cls(rows, characters, classes)

    def pairs(self) -> KeyArray:
        """Find the pair that each character or edge forms with the next one.

        RETURNS (KeyArray): The keys.
            (n_tokens + 2 * n_docs,) uint64
        """
        return _join(self.characters, self.characters, 1)

    def contexts(self) -> IntArray:
        """Write the classes of each character and its neighbours as one number.

        RETURNS (IntArray): Numbers less than `N_CONTEXTS`.
            (n_tokens,) int64
        """
        rows = self.rows
        return (self.classes[rows - 1] * _BASE + self.classes[rows]) * _BASE + self.classes[rows + 1]

    def sequences(self) -> Iterator[KeyArray]:
        """Find what each character or edge forms with those behind it.

        YIELDS (KeyArray): The keys of two characters, of three, and so on up to `MAX_WORD`.
            (n_tokens + 2 * n_docs,) uint64
        """
        keys = self.characters
        for size in range(1, MAX_WORD):
            keys = _join(keys, self.characters, size)
            yield keys

    def words(self, is_start: BoolArray) -> KeyArray:
        """Find the words of a segmentation that have between two and `MAX_WORD` characters.

        is_start (BoolArray): Which characters begin a word.
            (n_tokens,) bool
        RETURNS (KeyArray): The keys.
            (n_words,) uint64
        """
        begins = numpy.ones(len(self.characters) + 1, dtype=bool)  # edges are words of their own
        begins[self.rows] = is_start
        starts = numpy.flatnonzero(begins)
        sizes, starts = numpy.diff(starts), starts[:-1]
        found = [keys[starts[sizes == size]] for size, keys in enumerate(self.sequences(), 2)]
        return numpy.concatenate(found)

    def places(self, known_words: KeyArray, *, unknown_rate: float = 0.0) -> tuple[IntArray, IntArray, IntArray]:
        """Find the longest known word that begins with each character, ends with it, or has it in its middle.

        known_words (KeyArray): Keys of the words, sorted.
            (n_words,) uint64
        unknown_rate (float): Share of the words in the text that are overlooked.
        RETURNS (tuple): Rows of a table of `N_PLACES`: which of the three it is, and how long the word is.
            three times (n_tokens,) int64
        """
        places = numpy.zeros((3, len(self.characters)), dtype="int64")
        for size, keys in enumerate(self.sequences(), 2):
            first = numpy.flatnonzero(find_keys(known_words, keys) >= 0)
            if unknown_rate:
                first = first[numpy.random.random(len(first)) >= unknown_rate]  # noqa: NPY002
            places[0, first] = size
            places[1, first + size - 1] = size
            for inner in range(1, size - 1):
                places[2, first + inner] = size
        begins, ends, middle = places[:, self.rows] + numpy.arange(3)[:, None] * (MAX_WORD + 1)
        return begins, ends, middle


def _join(keys: KeyArray, characters: KeyArray, distance: int) -> KeyArray:
    return hash_rows(numpy.stack((keys, numpy.roll(characters, -distance)), axis=1))


@lru_cache(maxsize=50_000)
def _read_form(text: str) -> tuple[int, int]:
    """Return the key of a character, or of what is read as one, and its class."""
    kind = character_class(text[0])
    form = normalize("NFKC", text).translate(_FULL_STOPS)
    if len(text) > 1:
        form = "9" * min(len(text), _MAX_DIGITS) if kind == DIGIT else form.lower()
    return get_string_id(form), kind
