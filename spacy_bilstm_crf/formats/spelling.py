"""How the tags of a file are spelled: the scheme is detected from the tags themselves."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from ..errors import Errors
from ..tag_scheme import OUTSIDE, TagScheme

AUTO = "auto"
# The label of tags that are a prefix alone ("B", "I", "O"), as a Doc cannot hold entities without label.
DEFAULT_LABEL = "ENTITY"

_PREFIXES = "BIESLUM"
_PREFIXED = re.compile(rf"[{_PREFIXES}]-.+")
# Schemes that differ in what is legal or how it is written, but are read by the rules of another one.
_READ_AS = {"IOB1": "BIO", "IOB2": "BIO"}
_CANONICAL = {"BIO": "IOB2", "IOB": "IOB2", "IOBES": "BIOES"}
# More labels than this are rather the words of another column.
_MAX_BARE_LABELS = 100


def looks_like_tag(text: str) -> bool:
    """Tell whether a cell holds a tag of any scheme.

    text (str): The cell.
    RETURNS (bool): Whether it is "O" or a prefix with a label.
    """
    return text == OUTSIDE or _PREFIXED.fullmatch(text) is not None


@dataclass(frozen=True)
class Spelling:
    """A tag scheme as a file spells it.

    name (str): "IOB1", "IOB2", "BIOES", "BILUO", "BMES" or "IO".
    scheme (TagScheme): The scheme that its tags are read with.
    bare_labels (bool): Whether tags are labels without prefix: "PER PER O".
    segments_words (bool): Whether tags are "B", "M", "E", "S" without label and outside: words of characters.
    is_ambiguous (bool): Whether the scheme was detected and could as well be "IO": there is no B.
    """

    name: str
    scheme: TagScheme
    bare_labels: bool = False
    segments_words: bool = False
    is_ambiguous: bool = False
    _tags: dict[str, str | None] = field(default_factory=dict, repr=False, compare=False)
    _moves: dict[tuple[str | None, str | None], bool] = field(default_factory=dict, repr=False, compare=False)

    def read(self, text: str) -> str | None:
        """Read a tag.

        text (str): The cell.
        RETURNS (str | None): The tag as `scheme` writes it, None if it is not one.
        """
        if text not in self._tags:
            self._tags[text] = self._read(text)
        return self._tags[text]

    def _read(self, text: str) -> str | None:
        if self.bare_labels:
            return OUTSIDE if text == OUTSIDE else f"I-{text}"
        try:
            prefix, label = self.scheme.split(text)
        except ValueError:
            return None
        if prefix == OUTSIDE or self.segments_words:
            return prefix
        return f"{prefix}-{label or DEFAULT_LABEL}"

    def allows(self, before: str | None, after: str | None) -> bool:
        """Tell whether one tag may follow another in the scheme of this name.

        before (str | None): The tag, None at the start of the sentence.
        after (str | None): The tag after it, None at the end of the sentence.
        RETURNS (bool): Whether the scheme allows it.
        """
        move = before, after
        if move not in self._moves:
            self._moves[move] = self._allows(before, after)
        return self._moves[move]

    def _allows(self, before: str | None, after: str | None) -> bool:
        if self.name != "IOB1" or after is None:
            return self.scheme.allows(before, after)
        # In IOB1 entities begin with I, and with B only right after another one of their label.
        return not after.startswith("B-") or (before is not None and before[1:] == after[1:])


def find_spelling(sentences: Sequence[Sequence[str]], scheme: str, *, path: str, hint: str = "") -> Spelling:
    """Find out how tags are spelled.

    sentences (Sequence[Sequence[str]]): The tags of each sentence, without those that say "not annotated".
    scheme (str): The name of the scheme if it is known, otherwise "auto".
    path (str): The file, to be named in errors.
    hint (str): What else is known about the file, to be named in errors.
    RETURNS (Spelling): The spelling.
    RAISES (ValueError): CRF001 if there is no such scheme, CRF405 if the tags are mostly not of any scheme, or not of
        the one that is given.
    """
    counts = Counter(tag for tags in sentences for tag in tags if tag != OUTSIDE)
    has_outside = any(OUTSIDE in tags for tags in sentences)
    if scheme.lower() == AUTO:
        spelling = _detect(counts, has_outside, sentences)
    else:
        name = _CANONICAL.get(scheme.upper(), scheme.upper())
        spelling = _spelling(name, counts, has_outside)
    n_readable = sum(n for tag, n in counts.items() if spelling.read(tag))
    if 2 * n_readable < counts.total():
        found = ", ".join(repr(tag) for tag, _ in counts.most_common(8))
        name = "any scheme" if scheme.lower() == AUTO else f"the scheme {scheme}"
        raise ValueError(Errors.CRF405.format(path=path, name=name, found=found, hint=hint).rstrip())
    return spelling


def _spelling(name: str, counts: Counter[str], has_outside: bool) -> Spelling:
    bare = bool(counts) and set(counts) <= set(_PREFIXES)
    prefixed = bare or any(_PREFIXED.fullmatch(tag) for tag in counts)
    segments_words = name == "BMES" and bare and not has_outside
    return Spelling(
        name,
        TagScheme(_READ_AS.get(name, name), outside=not segments_words),
        bare_labels=name == "IO" and not prefixed,
        segments_words=segments_words,
    )


def _detect(counts: Counter[str], has_outside: bool, sentences: Iterable[Sequence[str]]) -> Spelling:
    bare = set(counts) <= set(_PREFIXES)
    prefixes = Counter[str]()
    for tag, n in counts.items():
        if bare or _PREFIXED.fullmatch(tag):
            prefixes[tag[0]] += n
    if not prefixes:
        name = "IO" if counts and has_outside and len(counts) <= _MAX_BARE_LABELS else "IOB2"
    elif prefixes["L"] + prefixes["U"] > prefixes["E"] + prefixes["S"]:
        name = "BILUO"
    elif prefixes["M"] > prefixes["I"] or (bare and not has_outside and prefixes["E"] + prefixes["S"]):
        name = "BMES"
    elif prefixes["E"] or prefixes["S"]:
        name = "BIOES"
    else:
        name = _iob1_or_iob2(sentences)
    spelling = _spelling(name, counts, has_outside)
    return replace(spelling, is_ambiguous=name == "IOB1" and not prefixes["B"])


def _iob1_or_iob2(sentences: Iterable[Sequence[str]]) -> str:
    """B is rare in IOB1: only right after another entity of the label. Both names are read in the same way."""
    n_iob1 = n_iob2 = 0
    for tags in sentences:
        for before, after in pairwise([OUTSIDE, *tags]):
            if after != OUTSIDE and (before == OUTSIDE or before[1:] != after[1:]):
                n_iob2 += after[0] == "B"
                n_iob1 += after[0] == "I"
    return "IOB1" if n_iob1 > n_iob2 else "IOB2"
