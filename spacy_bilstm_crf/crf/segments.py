"""Probabilities of segments: stretches of tokens that a decoder would read as one, whatever their tags are.

The tags of a label lie side by side. Which moves stay within a segment is given as a mask, so that one recursion serves
every tag scheme, also when illegal paths are possible and a label can spell a segment in more than one way.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from .marginals import forward_backward
from .potentials import Potentials, exact

_NEVER = float("-inf")


class Segments(NamedTuple):
    """Labelled stretches of tokens, which may overlap.

    docs (Tensor): Document of each.
        (n_segments,), int64
    starts (Tensor): First token.
        (n_segments,), int64
    ends (Tensor): Token behind the last one, greater than the start.
        (n_segments,), int64
    first_tags (Tensor): First one of the label's tags.
        (n_segments,), int64
    """

    docs: Tensor
    starts: Tensor
    ends: Tensor
    first_tags: Tensor

    def select(self, keep: Tensor) -> "Segments":
        """Return some of the segments.

        keep (Tensor): Which: a mask or indices.
            (n_segments,), bool, or (n_kept,), int64
        RETURNS (Segments): Those.
        """
        return Segments(*(part[keep] for part in self))


class SegmentRules(NamedTuple):
    """How tags make segments.

    joins (Tensor): True for moves whose second token belongs to the segment of the first.
        (n_tags, n_tags), bool, [from, to]
    width (int): Number of tags that a label has.
    borders (Tensor): True where a token belongs to no segment of the token before, whatever their tags are.
        (n_docs, n_tokens), bool
    """

    joins: Tensor
    width: int
    borders: Tensor


@exact
def segment_log_prob_any_tags(
    potentials: Potentials,
    segments: Segments,
    rules: SegmentRules,
    *,
    earliest: Tensor | None = None,
    latest: Tensor | None = None,
    possible_tags: Tensor | None = None,
) -> Tensor:
    """Compute the log probability that segments are read as such: these tokens, this label, and no more.

    potentials (Potentials): The potentials.
    segments (Segments): The segments.
    rules (SegmentRules): How tags make segments.
    earliest (Tensor | None): First token from which on the segment may begin, where what lies before `starts` is cut
        off after decoding. None for `starts`.
        (n_segments,), int64
    latest (Tensor | None): Likewise the last end that is cut back to `ends`.
        (n_segments,), int64
    possible_tags (Tensor | None): True where a tag is possible, None if all are.
        (n_docs, n_tokens, n_tags), bool
    RETURNS (Tensor): Log probabilities, in nats, at most 0; -inf for what cannot be.
        (n_segments,), float64 where the device has it
    RAISES (ValueError): CRF101, CRF102, CRF103.
    REFERENCE: Culotta & McCallum 2004, constrained forward-backward
    """
    earliest = segments.starts if earliest is None else earliest
    latest = segments.ends if latest is None else latest
    lattice = _SegmentLattice(potentials, rules, possible_tags)
    # The longest come first, so that those that go on are always a prefix.
    sizes, order = (latest - earliest).sort(descending=True)
    segments, earliest, latest = segments.select(order), earliest[order], latest[order]
    inside = lattice.alpha.new_full((len(order), rules.width), _NEVER)
    last = []
    for step in range(int(sizes[0]) if len(sizes) else 0):
        n_active = int((sizes > step).sum())
        active = Segments(*(part[:n_active] for part in segments))
        tokens = earliest[:n_active] + step
        inside = lattice.go_on(active, tokens, inside[:n_active]) if step else inside
        begins = (tokens <= active.starts).nonzero().squeeze(1)
        if len(begins):
            inside[begins] = torch.logaddexp(inside[begins], lattice.enter(active.select(begins), tokens[begins]))
        rows = (tokens + 1 >= active.ends).nonzero().squeeze(1)
        last.append((rows, tokens[rows] + 1, inside[rows]))
    if not last:
        return lattice.log_z.new_zeros(0)
    rows, stops, inside = (torch.cat(parts) for parts in zip(*last, strict=True))
    scores = lattice.alpha.new_full((len(order), int((latest - segments.ends).amax()) + 1), _NEVER)
    scores[rows, stops - segments.ends[rows]] = lattice.leave(segments.select(rows), stops, inside)
    result = torch.empty_like(scores[:, 0])
    result[order] = scores.logsumexp(dim=1) - lattice.log_z[segments.docs]
    return result.clamp_(max=0.0)


@exact
def likely_segments(
    potentials: Potentials,
    threshold: float,
    first_tags: Tensor,
    rules: SegmentRules,
    possible_tags: Tensor | None = None,
) -> tuple[Segments, Tensor]:
    """Find all segments that are at least so probable. They may overlap.

    The probability that a segment of a label begins at a token and has not ended yet only falls with each further
    token, and those of one token add up to 1 at most: so no more than 1 / threshold are alive at a token.

    potentials (Potentials): The potentials.
    threshold (float): The least probability, greater than 0.
    first_tags (Tensor): First tag of each label.
        (n_labels,), int64
    rules (SegmentRules): How tags make segments.
    possible_tags (Tensor | None): True where a tag is possible, None if all are.
        (n_docs, n_tokens, n_tags), bool
    RETURNS (tuple[Segments, Tensor]): The segments by document, start, end and label, and their log probabilities.
        (n_segments,), float64 where the device has it
    RAISES (ValueError): CRF101, CRF102, CRF103.
    """
    lattice = _SegmentLattice(potentials, rules, possible_tags)
    least = torch.tensor(threshold, dtype=lattice.alpha.dtype).log().to(lattice.alpha.device)
    alive = lattice.begin_with(first_tags, least)
    inside = lattice.enter(alive, alive.starts)
    found, scores = [], []
    while len(alive.docs):
        left = lattice.leave(alive, alive.ends, inside) - lattice.log_z[alive.docs]
        found.append(alive.select(left >= least))
        scores.append(left[left >= least])
        goes_on = alive.ends < potentials.lengths[alive.docs]
        alive, inside = alive.select(goes_on), inside[goes_on]
        inside = lattice.go_on(alive, alive.ends, inside)
        covered = (inside + lattice.tag_block(lattice.beta, alive.docs, alive.ends, alive)).logsumexp(dim=1)
        stays = covered - lattice.log_z[alive.docs] >= least
        alive = Segments(alive.docs, alive.starts, alive.ends + 1, alive.first_tags).select(stays)
        inside = inside[stays]
    if not found:
        return alive, least.new_zeros(0)
    segments = Segments(*(torch.cat(parts) for parts in zip(*found, strict=True)))
    order = _lexical_order(segments)
    return segments.select(order), torch.cat(scores)[order].clamp_(max=0.0)


def _lexical_order(segments: Segments) -> Tensor:
    order = torch.arange(len(segments.docs), device=segments.docs.device)
    for part in (segments.first_tags, segments.ends, segments.starts, segments.docs):
        order = order[part[order].argsort(stable=True)]
    return order


class _SegmentLattice:
    """Forward and backward scores of a batch, read along segments."""

    def __init__(self, potentials: Potentials, rules: SegmentRules, possible_tags: Tensor | None) -> None:
        self.potentials = potentials
        self.rules = rules
        self.possible_tags = possible_tags
        self.alpha, self.beta, self.log_z = forward_backward(potentials, possible_tags)
        self.block = torch.arange(rules.width, device=rules.joins.device)

    def tag_block(self, scores: Tensor, docs: Tensor, tokens: Tensor, segments: Segments) -> Tensor:
        """Read the scores of the tags of each segment's label at a token: (n_segments, width)."""
        return scores[docs.unsqueeze(1), tokens.unsqueeze(1), self.tags(segments)]

    def tags(self, segments: Segments) -> Tensor:
        """List the tags of each segment's label: (n_segments, width)."""
        return segments.first_tags.unsqueeze(1) + self.block

    def emitted(self, segments: Segments, tokens: Tensor) -> Tensor:
        """Read the emissions of each segment's label at a token: (n_segments, width)."""
        scores = self.tag_block(self.potentials.emissions, segments.docs, tokens, segments).to(self.alpha.dtype)
        if self.possible_tags is None:
            return scores
        possible = self.tag_block(self.possible_tags, segments.docs, tokens, segments)
        return scores.masked_fill(~possible, _NEVER)

    def enter(self, segments: Segments, tokens: Tensor) -> Tensor:
        """Score all paths up to a token at which a segment of the label begins, by its tag: (n_segments, width)."""
        tags = self.tags(segments)
        before = self.alpha[segments.docs, (tokens - 1).clamp(min=0)]
        is_closed = self.rules.joins[:, tags] & ~self.rules.borders[segments.docs, tokens].view(1, -1, 1)
        moves = self.potentials.transitions[:, tags].masked_fill(is_closed, _NEVER)  # (n_tags, n_segments, width)
        came = (moves + before.t().unsqueeze(2)).logsumexp(dim=0)
        begun = self.potentials.start_transitions[tags].to(came.dtype)
        return torch.where((tokens == 0).unsqueeze(1), begun, came) + self.emitted(segments, tokens)

    def go_on(self, segments: Segments, tokens: Tensor, inside: Tensor) -> Tensor:
        """Take paths inside of segments on to a token: (n_segments, width)."""
        tags = self.tags(segments)
        cells = (tags.unsqueeze(2), tags.unsqueeze(1))
        moves = self.potentials.transitions[cells].masked_fill(~self.rules.joins[cells], _NEVER)
        came = (inside.unsqueeze(2) + moves).logsumexp(dim=1)
        came.masked_fill_(self.rules.borders[segments.docs, tokens].unsqueeze(1), _NEVER)
        return came + self.emitted(segments, tokens)

    def leave(self, segments: Segments, tokens: Tensor, inside: Tensor) -> Tensor:
        """Score all whole paths whose segment ended before a token, or with the document: (n_segments,)."""
        tags = self.tags(segments)
        ended = inside + self.potentials.end_transitions[tags]
        is_end = tokens == self.potentials.lengths[segments.docs]
        at = tokens.clamp(max=self.alpha.shape[1] - 1)
        after = self.beta[segments.docs, at]
        after = after + self.potentials.emissions[segments.docs, at].masked_fill(after == _NEVER, 0.0)
        if self.possible_tags is not None:
            after = after.masked_fill(~self.possible_tags[segments.docs, at], _NEVER)
        is_closed = self.rules.joins[tags] & ~self.rules.borders[segments.docs, at].view(-1, 1, 1)
        moves = self.potentials.transitions[tags].masked_fill(is_closed, _NEVER)  # (n_segments, width, n_tags)
        went = inside + (moves + after.unsqueeze(1)).logsumexp(dim=2)
        return torch.where(is_end.unsqueeze(1), ended, went).logsumexp(dim=1)

    def begin_with(self, first_tags: Tensor, least: Tensor) -> Segments:
        """List the labels and tokens where a segment of one token may begin and be probable enough."""
        joint = (self.alpha + self.beta) - self.log_z.view(-1, 1, 1)
        tags = first_tags.unsqueeze(1) + self.block  # (n_labels, width)
        by_label = joint[:, :, tags].logsumexp(dim=3)  # (n_docs, n_tokens, n_labels)
        docs, tokens, labels = (by_label >= least).nonzero(as_tuple=True)
        segments = Segments(docs, tokens, tokens + 1, first_tags[labels])
        begun = self.enter(segments, tokens) + self.tag_block(self.beta, docs, tokens, segments)
        return segments.select(begun.logsumexp(dim=1) - self.log_z[docs] >= least)
