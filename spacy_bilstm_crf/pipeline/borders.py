"""Borders between words, for a whole batch at once: what is known of them, and which tags that leaves.

Positions are rows of the batch, whose documents stand one after another. A state belongs to the place before a token.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy
from spacy.attrs import ENT_IOB, ENT_TYPE, IDX, IS_SPACE, SENT_START, SPACY
from spacy.tokens import Doc
from spacy.util import filter_spans

from ..characters import unit_starts
from ..tag_scheme import TagScheme
from ..types import Annotation, BoolArray, IntArray

# What is known of the place before a token.
UNKNOWN, JOINED, BORDER = 0, 1, 2
# Values of `Token.ent_iob`.
_INSIDE, _BEGIN = 1, 3


@dataclass
class Borders:
    """What is known of the places before the tokens of a batch.

    states (IntArray): UNKNOWN, JOINED or BORDER. A document's first token has BORDER, whatever is said here.
        (n_tokens,) int64
    lengths (IntArray): Number of tokens of each document.
        (n_docs,) int64
    """

    states: IntArray
    lengths: IntArray

    def __post_init__(self) -> None:
        self.states[(numpy.cumsum(self.lengths) - self.lengths)[self.lengths > 0]] = BORDER

    def is_informative(self) -> bool:
        """Tell whether anything is known that is not known of every text.

        RETURNS (bool): Whether there is a state other than UNKNOWN inside of a document.
        """
        return int((self.states != UNKNOWN).sum()) > int((self.lengths > 0).sum())

    def possible_tags(self, scheme: TagScheme) -> BoolArray:
        """List the tags that agree with what is known.

        scheme (TagScheme): A tag scheme without an outside tag.
        RETURNS (BoolArray): True for those.
            (n_tokens, n_tags) bool
        """
        opens, continues, goes_on, stops = scheme.tag_rules(1)
        anything = numpy.ones_like(opens)
        after = numpy.append(self.states[1:], BORDER)[: len(self.states)]
        return numpy.array([anything, continues, opens])[self.states] & numpy.array([anything, goes_on, stops])[after]

    def annotation(self, scheme: TagScheme) -> Annotation:
        """Say the same as annotation.

        scheme (TagScheme): A tag scheme without an outside tag.
        RETURNS (Annotation): The tag of each token, or the tags that are left to it.
        """
        possible = self.possible_tags(scheme)
        docs = numpy.repeat(numpy.arange(len(self.lengths)), self.lengths)
        n_known = numpy.bincount(docs[self.states != UNKNOWN], minlength=len(self.lengths))
        # Where nothing is known but that a document begins and ends, nothing is to be learnt.
        possible[((n_known == 1) & (self.lengths > 1))[docs]] = True
        n_left = possible.sum(axis=1)
        tags = numpy.where(n_left == 1, possible.argmax(axis=1), -1)
        is_partial = bool(((n_left > 1) & (n_left < possible.shape[1])).any())
        return Annotation(tags, possible if is_partial else None)

    def count_contradictions(self, other: "Borders") -> int:
        """Count the places of which the two say the opposite.

        other (Borders): Borders of the same tokens.
        RETURNS (int): Number of places.
        """
        is_known = (self.states != UNKNOWN) & (other.states != UNKNOWN)
        return int((is_known & (self.states != other.states)).sum())

    def combine(self, stronger: "Borders") -> "Borders":
        """Put together what is known from two sources.

        stronger (Borders): Borders of the same tokens. They count where both sources know something.
        RETURNS (Borders): All that is known.
        """
        return Borders(numpy.where(stronger.states != UNKNOWN, stronger.states, self.states), self.lengths)


def text_borders(docs: Sequence[Doc]) -> Borders:
    """Read off the texts where words must or cannot begin.

    White space is a word by itself, and there is a border behind a space. What is written as one in scripts with spaces
    is joined, and so are marks and what they are written on.

    docs (Sequence[Doc]): The documents.
    RETURNS (Borders): What is known.
    """
    lengths = _lengths(docs)
    rows, is_space, has_space = _columns(docs, [IDX, IS_SPACE, SPACY])
    states = numpy.full(len(rows), UNKNOWN)
    offset = 0
    for doc in docs:
        text = doc.text
        is_start = numpy.zeros(len(text) + 1, dtype=bool)
        is_start[unit_starts(text)] = True
        rows_of_doc = slice(offset, offset + len(doc))
        states[rows_of_doc][~is_start[rows[rows_of_doc]]] = JOINED
        offset += len(doc)
    is_border = is_space != 0
    is_border[1:] |= (is_space[:-1] != 0) | (has_space[:-1] != 0)
    states[is_border] = BORDER
    return Borders(states, lengths)


def preset_borders(docs: Sequence[Doc], words_key: str | None) -> Borders:
    """Read borders that earlier components have set.

    The words of a span group are words; where some overlap the longest counts. Entities and sentences begin and end
    with a word, and cut the words of the group.

    docs (Sequence[Doc]): The documents.
    words_key (str | None): The name of the span group, which documents need not have.
    RETURNS (Borders): What is known.
    """
    lengths = _lengths(docs)
    iob, ent_type, sent_start = _columns(docs, [ENT_IOB, ENT_TYPE, SENT_START])
    is_ent = ((iob == _BEGIN) | (iob == _INSIDE)) & (ent_type != 0)
    is_border = (sent_start == 1) | (is_ent & (iob == _BEGIN))
    is_border[1:] |= is_ent[:-1] & (iob[1:] != _INSIDE)
    states = numpy.full(len(iob), UNKNOWN)
    offset = 0
    for doc in docs:
        words = doc.spans.get(words_key, ())
        for span in filter_spans(span for span in words if len(span)):
            states[offset + span.start : offset + span.end] = JOINED
            edges = [edge for edge in (span.start, span.end) if edge < len(doc)]
            states[[offset + edge for edge in edges]] = BORDER
        offset += len(doc)
    states[is_border] = BORDER
    return Borders(states, lengths)


def _lengths(docs: Sequence[Doc]) -> IntArray:
    return numpy.fromiter(map(len, docs), dtype="int64", count=len(docs))


def _columns(docs: Sequence[Doc], attrs: list[int | str]) -> tuple[IntArray, ...]:
    # Hashes lose their value as int64, but remain 0 or not.
    arrays = [doc.to_array(attrs).astype("int64") for doc in docs]
    columns = numpy.concatenate(arrays) if arrays else numpy.zeros((0, len(attrs)), dtype="int64")
    return tuple(columns.T)
