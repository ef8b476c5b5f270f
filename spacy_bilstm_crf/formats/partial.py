"""Tags of which some are unknown: what a Doc can say about them."""

from collections.abc import Sequence
from itertools import groupby

from ..tag_scheme import Span, TagScheme

PartialTags = Sequence[str | None]


def known_spans(tags: PartialTags, scheme: TagScheme) -> list[Span]:
    """Read the spans of every stretch of known tags.

    tags (Sequence[str | None]): A tag per token, None where it is unknown.
    scheme (TagScheme): Their scheme.
    RETURNS (list[tuple[int, int, str]]): (start, end, label) in tokens.
    """
    spans: list[Span] = []
    for start, end in stretches([tag is not None for tag in tags]):
        known = [tag for tag in tags[start:end] if tag is not None]
        spans.extend((start + first, start + last, label) for first, last, label in scheme.tags_to_spans(known))
    return spans


def certain_spans(tags: PartialTags, scheme: TagScheme) -> tuple[list[Span], list[tuple[int, int]]]:
    """Tell the entities that are known whole from the tokens about which a Doc has to be silent.

    A Doc cannot hold half an entity: where an unknown token could belong to an entity, the entity is unknown as a
    whole.

    tags (Sequence[str | None]): A tag per token, None where it is unknown.
    scheme (TagScheme): Their scheme.
    RETURNS (tuple): The entities as (start, end, label), and the unknown stretches as (start, end).
    """
    is_missing = [tag is None for tag in tags]
    spans = []
    for start, end, label in known_spans(tags, scheme):
        if any(_open_sides(tags, (start, end, label), scheme)):
            is_missing[start:end] = [True] * (end - start)
        else:
            spans.append((start, end, label))
    return spans, stretches(is_missing)


def repair_tags(tags: PartialTags, scheme: TagScheme) -> list[str | None]:
    """Write known tags as legal ones that say the same, as far as `TagScheme.tags_to_spans` reads them.

    tags (Sequence[str | None]): A tag per token, None where it is unknown.
    scheme (TagScheme): Their scheme.
    RETURNS (list[str | None]): The tags. Some legal path agrees with all of them.
    """
    repaired = list(tags)
    for start, end, label in known_spans(tags, scheme):
        left, right = _open_sides(tags, (start, end, label), scheme)
        width = left + end - start + right
        repaired[start:end] = scheme.spans_to_tags([(0, width, label)], width)[left : width - right]
    return repaired


def stretches(flags: Sequence[bool]) -> list[tuple[int, int]]:
    """Find the stretches of True.

    flags (Sequence[bool]): A flag per token.
    RETURNS (list[tuple[int, int]]): (start, end) of each stretch.
    """
    found, position = [], 0
    for flag, group in groupby(flags):
        end = position + len(list(group))
        if flag:
            found.append((position, end))
        position = end
    return found


def _open_sides(tags: PartialTags, span: Span, scheme: TagScheme) -> tuple[int, int]:
    """Whether an entity may go on to its left and to its right: only next to an unknown token, if its tags let it."""
    start, end, label = span
    first, middle = (scheme.prefixes[role] for role in scheme.roles[:2])
    left = start > 0 and tags[start - 1] is None and _are_joined(f"{first}-{label}", tags[start], scheme)
    left = left and not (start > 1 and _must_go_on(tags[start - 2], label, scheme))
    right = end < len(tags) and tags[end] is None and _are_joined(tags[end - 1], f"{middle}-{label}", scheme)
    return int(left), int(right)


def _must_go_on(tag: str | None, label: str, scheme: TagScheme) -> bool:
    """Whether the only token between a tag and an entity of a label is needed by an entity of another label."""
    if tag is None or scheme.split(tag)[1] == label:
        return False
    middle = scheme.prefixes[scheme.roles[1]]
    return not scheme.allows(tag, None) and _are_joined(tag, f"{middle}-{scheme.split(tag)[1]}", scheme)


def _are_joined(before: str | None, after: str | None, scheme: TagScheme) -> bool:
    return len(scheme.tags_to_spans([tag for tag in (before, after) if tag])) == 1
