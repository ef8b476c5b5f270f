"""Entities and blocked tokens that were set before the pipe runs, and that its tag paths lead around."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy

from ..tag_scheme import TagScheme
from ..types import BoolArray, IntArray
from .entity_tags import Entities, TokenColumns, entity_tags, read_entities


@dataclass
class Presets:
    """What is set already on a batch. A token that is known to be outside (`O`) is not bound by that.

    entities (Entities): Entities, in rows of the batch, also those of labels the pipe does not know.
    is_blocked (BoolArray): Tokens that shall be in no entity.
        (n_tokens,) bool
    """

    entities: Entities
    is_blocked: BoolArray

    @classmethod
    def from_columns(cls, columns: TokenColumns, label_hashes: Sequence[int]) -> "Presets":
        """Read them off the tokens.

        columns (TokenColumns): The columns of the batch.
        label_hashes (Sequence[int]): Hashes of the pipe's labels, in their order.
        RETURNS (Presets): The presets.
        """
        if not (columns.ent_iob & 1).any():  # neither 1, inside, nor 3, begin
            none = numpy.zeros(0, dtype="int64")
            return cls(Entities(none, none, none), numpy.zeros(len(columns.ent_iob), dtype=bool))
        is_blocked = (columns.ent_iob == 3) & (columns.ent_type == 0)
        return cls(read_entities(columns, label_hashes), is_blocked)

    def only_blocked(self) -> "Presets":
        """Let go of the entities: a pipe that overwrites them still leaves blocked tokens empty.

        RETURNS (Presets): The blocked tokens.
        """
        return Presets(self.entities.select(numpy.zeros(len(self.entities), dtype=bool)), self.is_blocked)

    @property
    def is_covered(self) -> BoolArray:
        """RETURNS (BoolArray): True for each token that is in an entity or blocked, (n_tokens,) bool."""
        is_covered = self.is_blocked.copy()
        is_covered[self.entities.rows()[0]] = True
        return is_covered

    def any(self) -> bool:
        """Tell whether there are any.

        RETURNS (bool): Whether any token is bound.
        """
        return len(self.entities) > 0 or bool(self.is_blocked.any())

    def in_docs(self, lengths: IntArray) -> BoolArray:
        """Tell which documents have some.

        lengths (IntArray): Number of tokens of each document.
            (n_docs,) int64
        RETURNS (BoolArray): True for those with presets.
            (n_docs,) bool
        """
        if not self.any():
            return numpy.zeros(len(lengths), dtype=bool)
        docs = numpy.repeat(numpy.arange(len(lengths)), lengths)
        return numpy.bincount(docs[self.is_covered], minlength=len(lengths)) > 0

    def clamp(self, possible: BoolArray | None, scheme: TagScheme, n_labels: int) -> BoolArray | None:
        """Leave each bound token its one tag, and no tag that would draw a neighbour into a preset entity.

        possible (BoolArray | None): What other rules leave; presets outrank them.
            (n_tokens, n_tags) bool
        scheme (TagScheme): The tag scheme.
        n_labels (int): Number of labels.
        RETURNS (BoolArray | None): What is left; None if nothing is ruled out.
            (n_tokens, n_tags) bool
        """
        if not self.any():
            return possible
        opens, continues, _, _ = scheme.tag_rules(n_labels)
        n_tokens = len(self.is_blocked)
        possible = numpy.ones((n_tokens, len(opens)), dtype=bool) if possible is None else possible.copy()
        # An entity of unknown label is a path of "O", which nothing continues.
        after = self.entities.ends[(self.entities.labels >= 0) & (self.entities.ends < n_tokens)]
        possible[after] &= ~(continues & ~opens)
        possible[self.is_covered] = False
        possible[self.is_covered, 0] = True  # "O"
        rows, tags = entity_tags(self.entities, scheme)
        possible[rows, 0] = False
        possible[rows, tags] = True
        return possible

    def segment_lengths(self, columns: TokenColumns) -> IntArray:
        """Cut documents where no entity may go on: around presets and at sentence starts.

        columns (TokenColumns): The columns of the batch.
        RETURNS (IntArray): Number of tokens of each piece; there are none for documents without tokens.
            (n_segments,) int64
        """
        is_border = columns.is_sent_start
        if self.any():
            is_covered = self.is_covered
            is_border = is_border.copy()
            is_border[self.entities.starts] = True
            is_border[1:] |= is_covered[1:] != is_covered[:-1]
        return numpy.diff(numpy.flatnonzero(is_border), append=len(is_border))

    def without_covered(self, entities: Entities) -> Entities:
        """Drop what the paths say inside of presets.

        entities (Entities): Entities read from tag paths, cut at `segment_lengths`.
        RETURNS (Entities): Those outside of presets.
        """
        return entities.select(~self.is_covered[entities.starts]) if self.any() else entities
