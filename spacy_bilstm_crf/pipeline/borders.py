"""Borders between words, for a whole batch at once: what is known of them, and which tags that leaves.

Positions are rows of the batch, whose documents stand one after another. A state belongs to the place before a token.
"""

from dataclasses import dataclass

import numpy

from ..tag_scheme import TagScheme
from ..types import Annotation, BoolArray, IntArray

# What is known of the place before a token.
UNKNOWN, JOINED, BORDER = 0, 1, 2


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
