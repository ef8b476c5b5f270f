"""Probabilities of tags, of pairs of tags and of labelled segments."""

import torch
from torch import Tensor

from .expectations import expect, log_messages
from .lattice import build_lattice, padding_mask
from .potentials import Potentials, at_least_float32, check_shapes, exact, wide_dtype


@exact
def forward_backward(potentials: Potentials, possible_tags: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Compute log alpha, log beta and log Z.

    potentials (Potentials): The potentials.
    possible_tags (Tensor | None): True where a tag is possible, None if all are.
        (n_docs, n_tokens, n_tags), bool
    RETURNS (tuple[Tensor, Tensor, Tensor]): log alpha (all paths up to a token, by its tag, its emission included), log
        beta (all paths behind a token, by its tag) and log Z. -inf for what cannot be and in the padding.
        twice (n_docs, n_tokens, n_tags), and (n_docs,), float64 where the device has it
    RAISES (ValueError): CRF101, CRF102, CRF103.
    REFERENCE: Rabiner 1989, equations 18 to 25.
    """
    check_shapes(potentials, possible_tags)
    alpha, beta, log_z = log_messages(build_lattice(potentials, possible_tags))
    return alpha[:, :, :-1].transpose(0, 1), beta[:, :, :-1].transpose(0, 1), log_z


@exact
def marginals(potentials: Potentials, possible_tags: Tensor | None = None) -> Tensor:
    """Compute P(tag at token).

    potentials (Potentials): The potentials.
    possible_tags (Tensor | None): True where a tag is possible, None if all are.
        (n_docs, n_tokens, n_tags), bool
    RETURNS (Tensor): Probabilities; 0 in the padding.
        (n_docs, n_tokens, n_tags), the dtype of the emissions, at least float32
    RAISES (ValueError): CRF101, CRF102, CRF103.
    """
    check_shapes(potentials, possible_tags)
    result = expect(build_lattice(potentials, possible_tags)).marginals[:, :, :-1]
    return result.to(at_least_float32(potentials)).transpose(0, 1)


@exact
def pairwise_marginals(potentials: Potentials, possible_tags: Tensor | None = None) -> Tensor:
    """Compute P(tag at token and tag at the next token).

    potentials (Potentials): The potentials.
    possible_tags (Tensor | None): True where a tag is possible, None if all are.
        (n_docs, n_tokens, n_tags), bool
    RETURNS (Tensor): Probabilities of each pair; 0 where the next token is padding.
        (n_docs, max(n_tokens - 1, 0), n_tags, n_tags), the dtype of the emissions, at least float32
    RAISES (ValueError): CRF101, CRF102, CRF103.
    """
    check_shapes(potentials, possible_tags)
    alpha, beta, log_z = forward_backward(potentials, possible_tags)
    entered = beta[:, 1:] + potentials.emissions[:, 1:].masked_fill(beta[:, 1:] == float("-inf"), 0.0)
    joint = alpha[:, :-1].unsqueeze(3) + potentials.transitions + entered.unsqueeze(2)
    if possible_tags is not None:
        joint.masked_fill_(~possible_tags[:, 1:].unsqueeze(2), float("-inf"))
    joint = joint.sub_(log_z.view(-1, 1, 1, 1)).exp_()
    joint.masked_fill_(
        padding_mask(potentials.lengths, potentials.emissions.shape[1])[1:].t().unsqueeze(2).unsqueeze(3), 0.0
    )
    return joint.to(at_least_float32(potentials))


@exact
def segment_log_prob(
    potentials: Potentials,
    docs: Tensor,
    starts: Tensor,
    ends: Tensor,
    tags: Tensor,
    *,
    before: Tensor | None = None,
    after: Tensor | None = None,
    possible_tags: Tensor | None = None,
) -> Tensor:
    """Compute the log probability that segments carry given tags, whatever the rest of their documents does.

    Segments may overlap. `before` and `after` restrict the tags of the neighbouring tokens, e.g. to those that do not
    continue the segment; they say nothing where a segment touches a border of its document.

    potentials (Potentials): The potentials.
    docs (Tensor): Document of each segment.
        (n_segments,), int64
    starts (Tensor): First token of each segment.
        (n_segments,), int64
    ends (Tensor): Token behind the last one, greater than the start.
        (n_segments,), int64
    tags (Tensor): Tags of the tokens of each segment; what lies behind its length does not matter.
        (n_segments, longest segment), int64
    before (Tensor | None): True for the tags that the token before may have, None for all.
        (n_segments, n_tags) or (n_tags,), bool
    after (Tensor | None): True for the tags that the token after may have, None for all.
        (n_segments, n_tags) or (n_tags,), bool
    possible_tags (Tensor | None): True where a tag is possible, None if all are.
        (n_docs, n_tokens, n_tags), bool
    RETURNS (Tensor): Log probabilities, in nats, at most 0; -inf for what cannot be.
        (n_segments,), float64 where the device has it
    RAISES (ValueError): CRF101, CRF102, CRF103.
    """
    check_shapes(potentials, possible_tags)
    alpha, beta, log_z = forward_backward(potentials, possible_tags)
    inside = _score_inside(potentials, docs, starts, ends, tags, possible_tags)
    first = tags[:, 0]
    last = tags.gather(1, (ends - starts - 1).unsqueeze(1)).squeeze(1)
    entering = alpha[docs, (starts - 1).clamp(min=0)] + potentials.transitions.t()[first]
    leaving = _entered(potentials, beta, docs, ends, possible_tags) + potentials.transitions[last]
    if before is not None:
        entering.masked_fill_(~before, float("-inf"))
    if after is not None:
        leaving.masked_fill_(~after, float("-inf"))
    dtype = alpha.dtype
    came = torch.where(starts == 0, potentials.start_transitions[first].to(dtype), entering.logsumexp(dim=1))
    at_end = ends == potentials.lengths[docs]
    went = torch.where(at_end, potentials.end_transitions[last].to(dtype), leaving.logsumexp(dim=1))
    return (came + inside + went - log_z[docs]).clamp_(max=0.0)


def _score_inside(
    potentials: Potentials, docs: Tensor, starts: Tensor, ends: Tensor, tags: Tensor, possible_tags: Tensor | None
) -> Tensor:
    # Emissions of all tokens of a segment and the moves between them.
    offset = torch.arange(tags.shape[1], device=tags.device)
    outside = offset >= (ends - starts).unsqueeze(1)
    tags = tags.masked_fill(outside, 0)
    tokens = (starts.unsqueeze(1) + offset).masked_fill_(outside, 0)
    cells = (docs.unsqueeze(1), tokens, tags)
    emitted = potentials.emissions[cells].masked_fill(outside, 0.0)
    if possible_tags is not None:
        emitted = emitted.masked_fill(~possible_tags[cells] & ~outside, float("-inf"))
    moved = potentials.transitions[tags[:, :-1], tags[:, 1:]].masked_fill(outside[:, 1:], 0.0)
    dtype = wide_dtype(emitted.device)
    return emitted.to(dtype).sum(dim=1) + moved.to(dtype).sum(dim=1)


def _entered(
    potentials: Potentials, beta: Tensor, docs: Tensor, tokens: Tensor, possible_tags: Tensor | None
) -> Tensor:
    # Paths from a token on, by its tag, its emission included. A token behind the end of a document is never used.
    tokens = tokens.clamp(max=max(potentials.emissions.shape[1] - 1, 0))
    scores = beta[docs, tokens]
    scores = scores + potentials.emissions[docs, tokens].masked_fill(scores == float("-inf"), 0.0)
    if possible_tags is not None:
        scores = scores.masked_fill(~possible_tags[docs, tokens], float("-inf"))
    return scores
