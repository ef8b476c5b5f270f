"""Entity annotation of Docs as arrays of tags, for a whole batch at once.

Positions are rows of the batch: its documents stand one after another. Everything that needs a look at each token is
numpy; Docs are read with one `to_array` each.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy
from spacy.attrs import ENT_IOB, ENT_TYPE, IS_SPACE, SENT_START
from spacy.tokens import Doc

from ..tag_scheme import TagScheme
from ..types import BoolArray, IntArray

# Values of `Token.ent_iob`.
_MISSING, _INSIDE, _OUTSIDE, _BEGIN = 0, 1, 2, 3
_UNKNOWN_LABEL = -1


@dataclass
class TokenColumns:
    """What the tokens of a batch say about entities.

    lengths (IntArray): Number of tokens of each document.
        (n_docs,) int64
    ent_iob (IntArray): 0 missing, 1 inside, 2 outside, 3 begin or, without a type, blocked.
        (n_tokens,) int64
    ent_type (ndarray): Hash of the label.
        (n_tokens,) uint64
    is_space (BoolArray): White space tokens.
        (n_tokens,) bool
    is_sent_start (BoolArray): Tokens that begin a sentence where that has been set, and a document's first token.
        (n_tokens,) bool
    """

    lengths: IntArray
    ent_iob: IntArray
    ent_type: numpy.ndarray
    is_space: BoolArray
    is_sent_start: BoolArray

    @classmethod
    def from_docs(cls, docs: Sequence[Doc]) -> "TokenColumns":
        """Read documents.

        docs (Sequence[Doc]): The documents.
        RETURNS (TokenColumns): Their columns.
        """
        arrays = [doc.to_array([ENT_IOB, ENT_TYPE, IS_SPACE, SENT_START]) for doc in docs]
        lengths = numpy.fromiter(map(len, docs), dtype="int64", count=len(docs))
        columns = numpy.concatenate(arrays) if arrays else numpy.zeros((0, 4), dtype="uint64")
        is_sent_start = columns[:, 3] == 1
        is_sent_start[doc_starts(lengths)] = True
        return cls(lengths, columns[:, 0].astype("int64"), columns[:, 1], columns[:, 2] != 0, is_sent_start)

    @property
    def is_doc_start(self) -> BoolArray:
        """RETURNS (BoolArray): True at the first token of each document, (n_tokens,) bool."""
        is_start = numpy.zeros(len(self.ent_iob), dtype=bool)
        is_start[doc_starts(self.lengths)] = True
        return is_start


@dataclass
class Entities:
    """Entities of a batch.

    starts (IntArray): Row of the first token.
        (n_entities,) int64
    ends (IntArray): Row after the last token.
        (n_entities,) int64
    labels (IntArray): Position in the pipe's labels, -1 for a label it does not know.
        (n_entities,) int64
    """

    starts: IntArray
    ends: IntArray
    labels: IntArray

    def __len__(self) -> int:
        """RETURNS (int): Number of entities."""
        return len(self.starts)

    def select(self, keep: BoolArray) -> "Entities":
        """Return some of the entities.

        keep (BoolArray): Which.
            (n_entities,) bool
        RETURNS (Entities): Those.
        """
        return Entities(self.starts[keep], self.ends[keep], self.labels[keep])

    def rows(self) -> tuple[IntArray, IntArray]:
        """List all rows inside of entities.

        RETURNS (tuple): The rows, and for each the index of its entity.
            both (n_rows,) int64
        """
        sizes = self.ends - self.starts
        index = numpy.repeat(numpy.arange(len(self)), sizes)
        within = numpy.arange(len(index)) - numpy.repeat(numpy.cumsum(sizes) - sizes, sizes)
        return self.starts[index] + within, index


def doc_starts(lengths: IntArray) -> IntArray:
    """Find the first row of each document that has tokens.

    lengths (IntArray): Number of tokens of each document.
        (n_docs,) int64
    RETURNS (IntArray): Rows.
        (n_docs_with_tokens,) int64
    """
    return (numpy.cumsum(lengths) - lengths)[lengths > 0]


def read_entities(columns: TokenColumns, label_hashes: Sequence[int]) -> Entities:
    """Find the entities that are set on the documents.

    columns (TokenColumns): The columns of the batch.
    label_hashes (Sequence[int]): Hashes of the pipe's labels, in their order.
    RETURNS (Entities): The entities, in order.
    """
    is_inside = ((columns.ent_iob == _INSIDE) | (columns.ent_iob == _BEGIN)) & (columns.ent_type != 0)
    continues = numpy.zeros(len(is_inside) + 1, dtype=bool)
    continues[1:-1] = is_inside[1:] & is_inside[:-1] & (columns.ent_iob[1:] == _INSIDE)
    continues[1:-1] &= (columns.ent_type[1:] == columns.ent_type[:-1]) & ~columns.is_doc_start[1:]
    starts = numpy.flatnonzero(is_inside & ~continues[:-1])
    ends = numpy.flatnonzero(is_inside & ~continues[1:]) + 1
    return Entities(starts, ends, find_labels(columns.ent_type[starts], label_hashes))


def find_labels(hashes: numpy.ndarray, label_hashes: Sequence[int]) -> IntArray:
    """Look up labels by their hash.

    hashes (ndarray): Hashes to look up.
        (n,) uint64
    label_hashes (Sequence[int]): Hashes of the pipe's labels, in their order.
    RETURNS (IntArray): Positions among the labels, -1 where there is none.
        (n,) int64
    """
    known = numpy.asarray(label_hashes, dtype="uint64")
    if not len(known):
        return numpy.full(len(hashes), _UNKNOWN_LABEL, dtype="int64")
    order = numpy.argsort(known)
    position = numpy.searchsorted(known[order], hashes).clip(max=len(known) - 1)
    found = order[position]
    return numpy.where(known[found] == hashes, found, _UNKNOWN_LABEL)


def entity_tags(entities: Entities, scheme: TagScheme) -> tuple[IntArray, IntArray]:
    """Write entities as tags. Those of unknown label are left out.

    entities (Entities): The entities.
    scheme (TagScheme): The tag scheme.
    RETURNS (tuple): Rows and the tag id at each.
        both (n_rows,) int64
    """
    entities = entities.select(entities.labels != _UNKNOWN_LABEL)
    rows, index = entities.rows()
    is_first = rows == entities.starts[index]
    is_last = rows == entities.ends[index] - 1
    first, middle, last, single = scheme.roles
    prefix = numpy.select([is_first & is_last, is_first, is_last], [single, first, last], middle)
    return rows, int(scheme.outside) + entities.labels[index] * len(scheme.prefixes) + prefix


def structural_tags(columns: TokenColumns, scheme: TagScheme, n_labels: int) -> BoolArray | None:
    """Find the tags that white space and sentence starts leave.

    No entity starts or ends on white space, and none crosses a sentence start. What the scheme cannot say so is left
    to `trim_entities`.

    columns (TokenColumns): The columns of the batch.
    scheme (TagScheme): The tag scheme.
    n_labels (int): Number of labels.
    RETURNS (BoolArray | None): None where nothing is ruled out.
        (n_tokens, n_tags) bool
    """
    crossing = columns.is_sent_start & ~columns.is_doc_start
    if not columns.is_space.any() and not crossing.any():
        return None
    opens, continues, goes_on, stops = scheme.tag_rules(n_labels)
    is_entity = numpy.arange(len(opens)) >= int(scheme.outside)
    possible = numpy.ones((len(columns.ent_iob), len(opens)), dtype=bool)
    # Only what always opens, or always ends, an entity can be ruled out by the tag of one token.
    at_edge = is_entity & ((opens & ~continues) | (stops & ~goes_on))
    possible[columns.is_space] &= ~at_edge
    possible[crossing] &= ~(is_entity & continues & ~opens)
    possible[numpy.flatnonzero(crossing) - 1] &= ~(is_entity & goes_on & ~stops)
    return possible


def trim_entities(entities: Entities, columns: TokenColumns) -> Entities:
    """Take white space off the ends of entities; what is nothing but white space goes.

    entities (Entities): The entities.
    columns (TokenColumns): The columns of the batch.
    RETURNS (Entities): The trimmed ones.
    """
    if not columns.is_space.any() or not len(entities):
        return entities
    starts, ends = entities.starts.copy(), entities.ends.copy()
    while (edge := (starts < ends) & columns.is_space[numpy.minimum(starts, len(columns.is_space) - 1)]).any():
        starts[edge] += 1
    while (edge := (starts < ends) & columns.is_space[ends - 1]).any():
        ends[edge] -= 1
    return Entities(starts, ends, entities.labels).select(starts < ends)
