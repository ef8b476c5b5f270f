"""Single known tags: a tag or None for each token of a reference, in `doc.user_data`.

A Doc cannot hold half an entity, these can. They may be written in another scheme than the pipe's. Each is read as what
it says of its token and, where the schemes differ, of the tokens beside it: `S-PER` is `B-PER` in BIO, and the token
after it is not `I-PER`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy
from spacy.training import Example

from ..errors import Errors
from ..tag_scheme import OUTSIDE, TagScheme
from ..types import TAG_SCHEME_KEY, TAGS_KEY, AllowedTransitions, BoolArray, IntArray

# Indices into `TagScheme.roles`.
_FIRST, _MIDDLE, _LAST, _SINGLE = range(4)


@dataclass
class PartialTags:
    """What the single tags of a document leave open.

    allowed (BoolArray): Tags of the predicted document's tokens.
        (n_tokens, n_tags) bool
    n_unknown_labels (int): Tags whose label is not known; they say nothing.
    """

    allowed: BoolArray
    n_unknown_labels: int


def read_partial_tags(
    example: Example, scheme: TagScheme, labels: Sequence[str], unannotated: BoolArray, tokens_match: bool
) -> PartialTags:
    """Read the single tags of a reference.

    example (Example): The example.
    scheme (TagScheme): The pipe's scheme; that of the tags as well, unless the reference names another.
    labels (Sequence[str]): The pipe's labels.
    unannotated (BoolArray): Tags of labels that the reference was not annotated for: they stay open at "O".
        (n_tags,) bool
    tokens_match (bool): Whether reference and predicted document have the same tokens.
    RETURNS (PartialTags): What the tags leave open.
    RAISES (ValueError): CRF311 if there is not one tag or None for each token, CRF001 or CRF005 for a scheme or tag
        that does not exist.
    """
    user_data = example.reference.user_data
    tags = user_data[TAGS_KEY]
    is_list = isinstance(tags, list | tuple) and all(tag is None or isinstance(tag, str) for tag in tags)
    if not is_list or len(tags) != len(example.reference):
        raise ValueError(Errors.CRF311.format(key=TAGS_KEY, n_tokens=len(example.reference), value=repr(tags)[:80]))
    source = TagScheme(user_data.get(TAG_SCHEME_KEY) or scheme.name)
    reader = _TagReader(source, scheme, labels)
    allowed = reader.read(tags, unannotated)
    if not tokens_match:
        allowed = _align(example, tags, allowed)
    return PartialTags(allowed, reader.n_unknown_labels)


class _TagReader:
    """From tags of one scheme to masks over tags of another."""

    def __init__(self, source: TagScheme, target: TagScheme, labels: Sequence[str]) -> None:
        self.source = source
        self.target = target
        self.labels = {label: i for i, label in enumerate(labels)}
        self.opens, self.continues, self.goes_on, self.stops = target.tag_rules(len(labels))
        self.n_unknown_labels = 0

    def read(self, tags: Sequence[str | None], unannotated: BoolArray) -> BoolArray:
        """Read the tags of a document. RETURNS: what they leave open, (n_tokens, n_tags) bool."""
        # A row before and after, for what the first and last tag say of their neighbours.
        allowed = numpy.ones((len(tags) + 2, len(self.opens)), dtype=bool)
        for i, tag in enumerate(tags, start=1):
            if tag is None:
                continue
            prefix, label = self.source.split(tag)
            if prefix == OUTSIDE:
                allowed[i] &= unannotated
                allowed[i, 0] = True
            elif label not in self.labels:
                self.n_unknown_labels += 1
            else:
                self._restrict(allowed[i - 1 : i + 2], prefix, self.labels[label])
        return allowed[1:-1]

    def _restrict(self, rows: BoolArray, prefix: str, label: int) -> None:
        """Restrict a token and its two neighbours."""
        position = self.source.prefixes.index(prefix)
        roles = {role for role, other in enumerate(self.source.roles) if other == position}
        first = int(self.target.outside) + label * len(self.target.prefixes)
        is_label = numpy.zeros(rows.shape[1], dtype=bool)
        is_label[first : first + len(self.target.prefixes)] = True
        mine = numpy.zeros(rows.shape[1], dtype=bool)
        mine[[first + self.target.roles[role] for role in roles]] = True
        rows[1] &= mine
        if self.source == self.target:
            return
        if roles <= {_MIDDLE, _LAST}:
            rows[0] &= is_label & self.goes_on
        elif roles <= {_FIRST, _SINGLE} and (mine & self.continues).any():
            rows[0] &= ~(is_label & self.goes_on)
        if roles <= {_FIRST, _MIDDLE}:
            rows[2] &= is_label & self.continues
        elif roles <= {_LAST, _SINGLE} and (mine & self.goes_on).any():
            rows[2] &= ~(is_label & self.continues)


def _align(example: Example, tags: Sequence[str | None], allowed: BoolArray) -> BoolArray:
    """Move masks to the predicted document's tokens. What has no counterpart, or shares one, is open unless it is O."""
    aligned = numpy.ones((len(example.predicted), allowed.shape[1]), dtype=bool)
    x2y, y2x = example.alignment.x2y, example.alignment.y2x
    for i in range(len(aligned)):
        counterparts = [int(j) for j in x2y[i]]
        is_alone = len(counterparts) == 1 and len(y2x[counterparts[0]]) == 1
        if is_alone or (counterparts and all(tags[j] == OUTSIDE for j in counterparts)):
            aligned[i] = allowed[counterparts[0]]
    return aligned


def open_impossible(
    allowed: BoolArray,
    possible_tags: BoolArray | None,
    lengths: IntArray,
    is_checked: BoolArray,
    transitions: AllowedTransitions | None,
) -> int:
    """Open up what no tag path can have, in place: the tokens at which the paths end, or else their whole document.

    allowed (BoolArray): What the annotation leaves open.
        (n_tokens, n_tags) bool
    possible_tags (BoolArray | None): Which tags a token may have; None for all.
        (n_tokens, n_tags) bool
    lengths (IntArray): Number of tokens of each document.
        (n_docs,) int64
    is_checked (BoolArray): Which documents to check.
        (n_docs,) bool
    transitions (AllowedTransitions | None): Which moves are legal; None for all.
    RETURNS (int): Number of tokens that were opened up.
    """
    n_tags = allowed.shape[1]
    if transitions is None:
        everything = numpy.ones(n_tags, dtype=bool)
        transitions = AllowedTransitions(numpy.ones((n_tags, n_tags), dtype=bool), everything, everything)
    n_opened = 0
    ends = numpy.cumsum(lengths)
    for doc in numpy.flatnonzero(is_checked & (lengths > 0)).tolist():
        rows = slice(int(ends[doc] - lengths[doc]), int(ends[doc]))
        possible = numpy.ones_like(allowed[rows]) if possible_tags is None else possible_tags[rows]
        n_opened += _open_doc(allowed[rows], possible, transitions)
    return n_opened


def _open_doc(allowed: BoolArray, possible: BoolArray, transitions: AllowedTransitions) -> int:
    moves = transitions.transitions.astype("float32")
    n_opened = 0
    reached = transitions.starts
    for i in range(len(allowed)):
        is_last = i == len(allowed) - 1
        legal = possible[i] & (transitions.ends if is_last else True)
        reachable = legal & (reached if i == 0 else (reached.astype("float32") @ moves > 0))
        reached = reachable & allowed[i]
        if not reached.any():
            if not reachable.any():
                # Earlier tags led here, and no other one helps.
                n_closed = int((~allowed).any(axis=1).sum())
                allowed[:] = True
                return n_closed
            allowed[i] = True
            reached = reachable
            n_opened += 1
    return n_opened
