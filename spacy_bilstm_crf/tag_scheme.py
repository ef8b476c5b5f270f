"""Tag schemes: how labelled spans become one tag per token, and back.

A tag is a prefix and a label, `B-PERSON`, or `O` outside of every entity. The label "" gives bare prefixes (`B`, `M`,
`E`, `S`), which is what a word segmenter predicts. Tag ids are laid out so that a new label only appends tags: `O`
first (if the scheme has it), then a block per label in the order of the scheme's prefixes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .errors import Errors

OUTSIDE = "O"
Span = tuple[int, int, str]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]


class _Rule(NamedTuple):
    """What a prefix may do. Both the legal moves and the repair of illegal ones follow from these four answers."""

    opens: bool  # may be the first token of an entity
    continues: bool  # may be a later token of an entity
    goes_on: bool  # the entity may have another token after this one
    stops: bool  # the entity may be over after this one


_FIRST = _Rule(opens=True, continues=False, goes_on=True, stops=False)
_MIDDLE = _Rule(opens=False, continues=True, goes_on=True, stops=False)
_LAST = _Rule(opens=False, continues=True, goes_on=False, stops=True)
_SINGLE = _Rule(opens=True, continues=False, goes_on=False, stops=True)

_SCHEMES: dict[str, dict[str, _Rule]] = {
    "BIO": {"B": _FIRST._replace(stops=True), "I": _MIDDLE._replace(stops=True)},
    "BIOES": {"B": _FIRST, "I": _MIDDLE, "E": _LAST, "S": _SINGLE},
    "IO": {"I": _Rule(opens=True, continues=True, goes_on=True, stops=True)},
    "BMES": {"B": _FIRST, "M": _MIDDLE, "E": _LAST, "S": _SINGLE},
}
# (first, middle, last, single): the prefixes of an entity's tokens, as an index into the scheme's prefixes.
_ROLES: dict[str, tuple[int, int, int, int]] = {
    "BIO": (0, 1, 1, 0),
    "BIOES": (0, 1, 2, 3),
    "IO": (0, 0, 0, 0),
    "BMES": (0, 1, 2, 3),
}
_ALIASES = {"BILUO": "BIOES", "IOBES": "BIOES", "IOB": "BIO", "IOB2": "BIO"}
# spaCy spells BIOES with L (last) and U (unit).
_BILUO_PREFIXES = {"L": "E", "U": "S"}
_ALL_PREFIXES = "BIESLUM"


def check_label(label: str) -> str:
    """Check that a label is one, and not a tag or nothing.

    label (str): The label of an entity, e.g. "PERSON".
    RETURNS (str): The same label.
    RAISES (ValueError): CRF002 if the label begins with the prefix of a scheme, CRF003 if it is empty or not a string.
    """
    if not isinstance(label, str) or not label:
        raise ValueError(Errors.CRF003.format(label=repr(label)))
    if len(label) > 1 and label[0] in _ALL_PREFIXES and label[1] == "-":
        raise ValueError(Errors.CRF002.format(label=label, bare=label[2:]))
    return label


@dataclass(frozen=True)
class TagScheme:
    """A way to write labelled spans as one tag per token.

    name (str): "BIO", "BIOES", "IO" or "BMES", in any case. "BILUO" is accepted as spaCy's name of BIOES.
    outside (bool): Whether there is a tag for tokens outside of every span. A word segmenter has none.
    RAISES (ValueError): CRF001 if there is no such scheme.
    """

    name: str
    outside: bool = True

    def __post_init__(self) -> None:
        upper = self.name.upper() if isinstance(self.name, str) else ""
        name = _ALIASES.get(upper, upper)
        if name not in _SCHEMES:
            raise ValueError(Errors.CRF001.format(name=repr(self.name), names=", ".join(_SCHEMES)))
        object.__setattr__(self, "name", name)

    @property
    def prefixes(self) -> tuple[str, ...]:
        """RETURNS (tuple[str, ...]): The prefixes of the scheme, in the order of their tag ids."""
        return tuple(_SCHEMES[self.name])

    @property
    def roles(self) -> tuple[int, int, int, int]:
        """RETURNS (tuple[int, int, int, int]): Which prefix the first, a middle, the last and a single token have."""
        return _ROLES[self.name]

    def tags(self, labels: Iterable[str]) -> list[str]:
        """List all tags, the position being the tag id. Another label at the end only appends tags.

        labels (Iterable[str]): The labels, in the order of their ids.
        RETURNS (list[str]): The tags: "O", if there is one, then a block per label.
        """
        tags = [OUTSIDE] if self.outside else []
        tags.extend(_join(prefix, label) for label in labels for prefix in self.prefixes)
        return tags

    def split(self, tag: str) -> tuple[str, str]:
        """Take a tag apart. spaCy's L and U are read as E and S.

        tag (str): The tag, e.g. "B-PERSON", "O" or, without label, "B".
        RETURNS (tuple[str, str]): The prefix and the label, ("O", "") for the outside tag.
        RAISES (ValueError): CRF005 if the tag is not one of this scheme.
        """
        if tag == OUTSIDE and self.outside:
            return OUTSIDE, ""
        prefix, dash, label = tag.partition("-")
        if self.name == "BIOES":
            prefix = _BILUO_PREFIXES.get(prefix, prefix)
        if prefix not in self.prefixes or bool(dash) != bool(label):
            expected = ", ".join(self.tags(["LABEL"]))
            raise ValueError(Errors.CRF005.format(tag=repr(tag), name=self.name, expected=expected))
        return prefix, label

    def allows(self, before: str | None, after: str | None) -> bool:
        """Tell whether one tag may follow another.

        before (str | None): The tag, None at the start of the document.
        after (str | None): The tag after it, None at the end of the document.
        RETURNS (bool): Whether the move is legal.
        RAISES (ValueError): CRF005 if a tag is not one of this scheme.
        """
        rules = {OUTSIDE: _SINGLE, **_SCHEMES[self.name]}
        prefix, label = (OUTSIDE, "") if before is None else self.split(before)
        next_prefix, next_label = (OUTSIDE, "") if after is None else self.split(after)
        here, there = rules[prefix], rules[next_prefix]
        return (here.stops and there.opens) or (here.goes_on and there.continues and label == next_label)

    def allowed_transitions(self, labels: Sequence[str]) -> tuple[BoolArray, BoolArray, BoolArray]:
        """List the legal moves from tag to tag, and the tags a document may begin and end with.

        labels (Sequence[str]): The labels, in the order of their ids.
        RETURNS (tuple): Three arrays, True where legal:
            transitions[i, j], from tag i to tag j, (n_tags, n_tags) bool
            starts, (n_tags,) bool
            ends, (n_tags,) bool
        """
        opens, continues, goes_on, stops = self.tag_rules(len(labels))
        n_out = int(self.outside)
        label_of = np.arange(len(opens)) - n_out
        label_of = np.where(label_of < 0, -1, label_of // len(self.prefixes))
        same_entity = goes_on[:, None] & continues[None, :] & (label_of[:, None] == label_of[None, :])
        return (stops[:, None] & opens[None, :]) | same_entity, opens, stops

    def spans_to_tags(self, spans: Iterable[Span], n_tokens: int) -> list[str]:
        """Write spans as one tag per token.

        spans (Iterable[tuple[int, int, str]]): (start, end, label) in tokens, in any order, end exclusive.
        n_tokens (int): Length of the document.
        RETURNS (list[str]): A tag per token. In IO, adjacent spans of one label become one.
        RAISES (ValueError): CRF004 if spans overlap, are empty or lie outside of the document, CRF006 if a token has
            no span and the scheme has no outside tag.
        """
        spans = list(spans)
        labels = list(dict.fromkeys(label for _, _, label in spans))
        tags = self.tags(labels)
        ids = self.spans_to_ids(spans, n_tokens, {label: i for i, label in enumerate(labels)})
        return [tags[i] for i in ids.tolist()]

    def tags_to_spans(self, tags: Iterable[str]) -> list[Span]:
        """Read spans from tags.

        Illegal tag paths are read as conlleval does: a tag that continues no entity of its label opens one, and an
        entity that is not closed ends where the next tag does not continue it.

        tags (Iterable[str]): A tag per token.
        RETURNS (list[tuple[int, int, str]]): (start, end, label) in tokens, end exclusive.
        RAISES (ValueError): CRF005 if a tag is not one of this scheme.
        """
        rules = _SCHEMES[self.name]
        spans: list[Span] = []
        start, current, goes_on = -1, "", False
        end = 0
        for i, tag in enumerate(tags):
            end = i + 1
            prefix, label = self.split(tag)
            if start >= 0 and prefix != OUTSIDE and rules[prefix].continues and goes_on and label == current:
                goes_on = rules[prefix].goes_on
                continue
            if start >= 0:
                spans.append((start, i, current))
            start = -1 if prefix == OUTSIDE else i
            current, goes_on = label, prefix != OUTSIDE and rules[prefix].goes_on
        if start >= 0:
            spans.append((start, end, current))
        return spans

    def spans_to_ids(self, spans: Iterable[Span], n_tokens: int, label_ids: Mapping[str, int]) -> IntArray:
        """Write spans as one tag id per token.

        spans (Iterable[tuple[int, int, str]]): (start, end, label) in tokens, in any order, end exclusive.
        n_tokens (int): Length of the document.
        label_ids (Mapping[str, int]): The position of each label in the list of labels.
        RETURNS (ndarray): The tag ids.
            (n_tokens,) int64
        RAISES (ValueError): CRF004 if spans overlap, are empty or lie outside of the document, CRF006 if a token has
            no span and the scheme has no outside tag, CRF007 if a label is not in `label_ids`.
        """
        first, middle, last, single = _ROLES[self.name]
        n_out, width = int(self.outside), len(self.prefixes)
        ids = np.zeros(n_tokens, dtype=np.int64)
        covered = previous_end = 0
        for start, end, label in sorted(spans):
            if not previous_end <= start < end <= n_tokens:
                raise ValueError(Errors.CRF004.format(span=(start, end, label), n_tokens=n_tokens, end=previous_end))
            if label not in label_ids:
                raise ValueError(Errors.CRF007.format(label=repr(label), labels=", ".join(map(repr, label_ids))))
            base = n_out + label_ids[label] * width
            if end - start == 1:
                ids[start] = base + single
            else:
                ids[start:end] = base + middle
                ids[start], ids[end - 1] = base + first, base + last
            covered += end - start
            previous_end = end
        if not self.outside and covered < n_tokens:
            raise ValueError(Errors.CRF006.format(name=self.name, covered=covered, n_tokens=n_tokens))
        return ids

    def ids_to_spans(self, tag_ids: IntArray, lengths: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Read the spans of a whole batch from tag ids, with the repair rule of `tags_to_spans`.

        The border of a document ends an entity. A negative id, no tag, counts as outside.

        tag_ids (ndarray): Tag ids of all documents, one document after the other.
            (n_tokens,) int64
        lengths (ndarray): Length of each document, 0 allowed.
            (n_docs,) int64
        RETURNS (tuple): The spans in order: index of the document, start and end (exclusive) in tokens of that
            document, index of the label.
            each (n_spans,) int64
        RAISES (ValueError): CRF008 if the lengths do not add up to the number of ids.
        """
        doc_index, offsets = _doc_index(tag_ids, lengths)
        prefix, label = np.divmod(tag_ids - int(self.outside), len(self.prefixes))[::-1]
        inside = label >= 0
        rules = _SCHEMES[self.name].values()
        continues = np.array([rule.continues for rule in rules])[prefix]
        goes_on = np.array([rule.goes_on for rule in rules])[prefix]
        joined = np.zeros(len(tag_ids) + 1, dtype=bool)  # joined[i]: token i belongs to the entity of token i - 1
        joined[1:-1] = continues[1:] & goes_on[:-1] & inside[1:] & (label[1:] == label[:-1])
        joined[1:-1] &= doc_index[1:] == doc_index[:-1]
        starts = np.flatnonzero(inside & ~joined[:-1])
        ends = np.flatnonzero(inside & ~joined[1:]) + 1
        docs = doc_index[starts]
        return docs, starts - offsets[docs], ends - offsets[docs], label[starts]

    def is_legal(self, tag_ids: IntArray, lengths: IntArray, labels: Sequence[str]) -> BoolArray:
        """Tell which documents of a batch have a tag path that the scheme allows.

        tag_ids (ndarray): Tag ids of all documents, one document after the other.
            (n_tokens,) int64
        lengths (ndarray): Length of each document, 0 allowed.
            (n_docs,) int64
        labels (Sequence[str]): The labels, in the order of their ids.
        RETURNS (ndarray): True where all moves are legal. A document without tokens is legal.
            (n_docs,) bool
        RAISES (ValueError): CRF008 if the lengths do not add up to the number of ids.
        """
        doc_index, _ = _doc_index(tag_ids, lengths)
        transitions, starts, ends = self.allowed_transitions(labels)
        border = np.ones(len(tag_ids) + 1, dtype=bool)  # border[i]: a document begins at token i
        border[1:-1] = doc_index[1:] != doc_index[:-1]
        illegal = (border[:-1] & ~starts[tag_ids]) | (border[1:] & ~ends[tag_ids])
        illegal[1:] |= ~border[1:-1] & ~transitions[tag_ids[:-1], tag_ids[1:]]
        return np.bincount(doc_index[illegal], minlength=len(lengths)) == 0

    def tag_rules(self, n_labels: int) -> BoolArray:
        """List what each tag may do: open an entity, continue one, have another token of it follow, be its last.

        "O" stands between entities: it opens, stops and neither goes on nor continues.

        n_labels (int): Number of labels.
        RETURNS (ndarray): Rows in that order.
            (4, n_tags) bool
        """
        outside = [_SINGLE] if self.outside else []
        rules = outside + list(_SCHEMES[self.name].values()) * n_labels
        return np.array(rules, dtype=bool).reshape(-1, 4).T


def convert_tags(tags: Iterable[str], source: TagScheme, target: TagScheme) -> list[str]:
    """Write tags of one scheme in another one.

    Illegal paths are repaired on the way (see `TagScheme.tags_to_spans`).
    spaCy's `iob_to_biluo` and `biluo_to_iob` give the same for legal paths, but keep or refuse illegal ones.

    tags (Iterable[str]): A tag per token.
    source (TagScheme): The scheme of the tags.
    target (TagScheme): The scheme to write.
    RETURNS (list[str]): A tag per token. To IO, adjacent spans of one label become one.
    RAISES (ValueError): CRF005 if a tag is not one of the source scheme, CRF006 if a token has no span and the target
        has no outside tag.
    """
    tags = list(tags)
    return target.spans_to_tags(source.tags_to_spans(tags), len(tags))


def _join(prefix: str, label: str) -> str:
    return f"{prefix}-{label}" if label else prefix


def _doc_index(tag_ids: IntArray, lengths: IntArray) -> tuple[IntArray, IntArray]:
    """The document of each token, and the first token of each document."""
    lengths = np.asarray(lengths, dtype=np.int64)
    if lengths.sum() != len(tag_ids):
        raise ValueError(Errors.CRF008.format(total=int(lengths.sum()), n_tokens=len(tag_ids)))
    return np.repeat(np.arange(len(lengths)), lengths), np.cumsum(lengths) - lengths
