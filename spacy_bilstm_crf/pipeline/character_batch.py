"""What the tokens of a batch say, read once: a look at each token from Python would cost more than the network.

Positions are rows of the batch, whose documents stand one after another.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy
from spacy.attrs import ENT_IOB, ENT_TYPE, IS_SPACE, ORTH, SENT_START, SPACY
from spacy.tokens import Doc
from spacy.util import filter_spans

from ..characters import DIGIT, JOINER, LETTER, LOWER, MARK, UPPER, character_class, unit_starts
from ..types import BoolArray, IntArray
from .borders import BORDER, JOINED, UNKNOWN, Borders

_ATTRS: list[int | str] = [ORTH, SPACY, IS_SPACE, ENT_IOB, ENT_TYPE, SENT_START]
_LETTERS = (UPPER, LOWER, LETTER, DIGIT)
_MARKS = (MARK, JOINER)
# Values of `Token.ent_iob`.
_INSIDE, _BEGIN = 1, 3


@dataclass
class CharacterBatch:
    """Documents of characters, or of what is written as one.

    docs (Sequence[Doc]): The documents.
    lengths (IntArray): Number of tokens of each document.
        (n_docs,) int64
    columns (ndarray): Attributes of the tokens, as `_ATTRS` lists them.
        (n_attrs, n_tokens) uint64
    """

    docs: Sequence[Doc]
    lengths: IntArray
    columns: numpy.ndarray

    @classmethod
    def from_docs(cls, docs: Sequence[Doc]) -> "CharacterBatch":
        """Read documents.

        docs (Sequence[Doc]): The documents.
        RETURNS (CharacterBatch): The batch.
        """
        lengths = numpy.fromiter(map(len, docs), dtype="int64", count=len(docs))
        parts = [doc.to_array(_ATTRS) for doc in docs] or [numpy.zeros((0, len(_ATTRS)), dtype="uint64")]
        return cls(docs, lengths, numpy.ascontiguousarray(numpy.concatenate(parts).T))

    @property
    def has_space(self) -> BoolArray:
        """RETURNS (BoolArray): Tokens with a space behind them. (n_tokens,) bool."""
        return self.columns[1] != 0

    @property
    def ends(self) -> list[int]:
        """RETURNS (list[int]): Row behind the last one of each document."""
        return numpy.cumsum(self.lengths).tolist()

    @cached_property
    def _forms(self) -> tuple[list[str], IntArray]:
        """The distinct tokens, and which of them each token is. (n_tokens,) int64."""
        forms, form_of = numpy.unique(self.columns[0], return_inverse=True)
        strings = self.docs[0].vocab.strings if len(self.docs) else ()
        return [strings[orth] for orth in forms.tolist()], form_of

    @cached_property
    def texts(self) -> list[str]:
        """RETURNS (list[str]): The text of each document."""
        forms, form_of = self._forms
        pieces = [*forms, *(f"{form} " for form in forms)]
        index = (form_of + len(forms) * self.has_space).tolist()
        bounds = pairwise([0, *self.ends])
        return ["".join([pieces[i] for i in index[start:end]]) for start, end in bounds]

    @cached_property
    def offsets(self) -> tuple[IntArray, IntArray]:
        """RETURNS (tuple): First character of each token, and the one behind its last, in the text of its document.

        twice (n_tokens,) int64
        """
        forms, form_of = self._forms
        sizes = numpy.array([*map(len, forms)], dtype="int64")[form_of]
        behind = numpy.cumsum(sizes + self.has_space)
        first_rows = numpy.cumsum(self.lengths) - self.lengths
        before = numpy.concatenate(([0], behind))[first_rows]
        starts = behind - sizes - self.has_space - numpy.repeat(before, self.lengths)
        return starts, starts + sizes

    def text_borders(self) -> Borders:
        """Read off the texts where words must or cannot begin.

        White space is a word by itself, and there is a border behind a space. What is written as one in scripts with
        spaces is joined, and so are marks and what they are written on.

        RETURNS (Borders): What is known.
        """
        states = numpy.full(len(self.has_space), UNKNOWN)
        for doc, start, end in self._docs_with_neighbours():
            is_start = numpy.zeros(len(self.texts[doc]) + 1, dtype=bool)
            is_start[unit_starts(self.texts[doc])] = True
            states[start:end][~is_start[self.offsets[0][start:end]]] = JOINED
        is_space = self.columns[2] != 0
        states[is_space] = BORDER
        states[1:][is_space[:-1] | self.has_space[:-1]] = BORDER
        return Borders(states, self.lengths)

    def _docs_with_neighbours(self) -> list[tuple[int, int, int]]:
        """List documents, with their rows, in which tokens stand side by side that may be written as one."""
        forms, form_of = self._forms
        classes = [(character_class(form[0]), character_class(form[-1])) for form in forms]
        first, last = numpy.array(classes, dtype="int64").reshape(-1, 2)[form_of].T
        is_joined = numpy.isin(first, _MARKS)
        is_joined[1:] |= numpy.isin(first[1:], _LETTERS) & numpy.isin(last[:-1], (*_LETTERS, *_MARKS))
        is_joined[1:] |= last[:-1] == JOINER
        ends = numpy.cumsum(self.lengths)
        docs = numpy.unique(numpy.searchsorted(ends, numpy.flatnonzero(is_joined), side="right"))
        starts = ends - self.lengths
        return list(zip(docs.tolist(), starts[docs].tolist(), ends[docs].tolist(), strict=True))

    def preset_borders(self, words_key: str | None) -> Borders:
        """Read borders that earlier components have set.

        The words of a span group are words; where some overlap the longest counts. Entities and sentences begin and end
        with a word, and cut the words of the group.

        words_key (str | None): The name of the span group, which documents need not have.
        RETURNS (Borders): What is known.
        """
        iob, ent_type, sent_start = self.columns[3:]
        states = numpy.full(len(iob), UNKNOWN)
        for doc, end in zip(self.docs, self.ends, strict=True):
            for span in filter_spans(span for span in doc.spans.get(words_key, ()) if len(span)):
                first = end - len(doc)
                states[first + span.start : first + span.end] = JOINED
                edges = [edge for edge in (span.start, span.end) if edge < len(doc)]
                states[[first + edge for edge in edges]] = BORDER
        is_ent = ((iob == _BEGIN) | (iob == _INSIDE)) & (ent_type != 0)
        is_border = (sent_start == 1) | (is_ent & (iob == _BEGIN))
        is_border[1:] |= is_ent[:-1] & (iob[1:] != _INSIDE)
        states[is_border] = BORDER
        return Borders(states, self.lengths)

    def has_annotation(self) -> BoolArray:
        """Tell which documents have entities or sentences that are set.

        RETURNS (BoolArray): True for those.
            (n_docs,) bool
        """
        is_set = self.columns[5] != 0
        # The first token always begins a sentence.
        is_set[(numpy.cumsum(self.lengths) - self.lengths)[self.lengths > 0]] = False
        is_set |= self.columns[3] != 0
        docs = numpy.repeat(numpy.arange(len(self.docs)), self.lengths)
        return numpy.bincount(docs[is_set], minlength=len(self.docs)) > 0
