"""Scores of paths, log Z, losses and their gradients: expected minus observed counts."""

import torch
from torch import Tensor

from ..errors import Errors
from .messages import Expectations, expectations, select
from .potentials import Gradient, Potentials, check_shapes, exact, padding_mask, wide_dtype


@exact
def path_score(potentials: Potentials, tags: Tensor) -> Tensor:
    """Add up the scores of given tag paths. A path with a forbidden move scores -inf, the empty path 0.

    potentials (Potentials): The potentials.
    tags (Tensor): One path per document; the padding may hold anything.
        (n_docs, n_tokens), int64
    RETURNS (Tensor): The scores, in nats.
        (n_docs,), float64 where the device has it
    RAISES (ValueError): CRF103 on wrong shapes.
    """
    check_shapes(potentials, tags)
    n_docs, n_tokens, n_tags = potentials.emissions.shape
    dtype = wide_dtype(potentials.emissions.device)
    if not n_tokens:
        return potentials.emissions.new_zeros(n_docs, dtype=dtype)
    padding = padding_mask(potentials).t()
    # END follows the last token, so that the end score is one more move.
    path = torch.nn.functional.pad(tags.masked_fill(padding, n_tags), (0, 1), value=n_tags)
    emitted = potentials.emissions.gather(2, tags.masked_fill(padding, 0).unsqueeze(2)).squeeze(2)
    score = emitted.to(dtype).masked_fill_(padding, 0.0).sum(dim=1)
    moves = torch.cat([potentials.transitions, potentials.end_transitions.unsqueeze(1)], dim=1).to(dtype)
    moved = moves.flatten()[path[:, :-1].clamp(max=n_tags - 1) * (n_tags + 1) + path[:, 1:]]
    score += moved.masked_fill_(padding, 0.0).sum(dim=1)
    begun = potentials.start_transitions.to(dtype)[path[:, 0].clamp(max=n_tags - 1)]
    return score.add_(begun.masked_fill_(padding[:, 0], 0.0))


@exact
def log_partition(potentials: Potentials, possible_tags: Tensor | None = None) -> Tensor:
    """Compute log Z, the log of the summed exponentiated scores of all paths.

    potentials (Potentials): The potentials.
    possible_tags (Optional[Tensor]): True where a tag is possible, None if all are.
        (n_docs, n_tokens, n_tags), bool
    RETURNS (Tensor): log Z, in nats; 0 for a document of length 0.
        (n_docs,), float64 where the device has it
    RAISES (ValueError): CRF101 if a document has no path, CRF102 if scores are not finite, CRF103 on wrong shapes.
    """
    check_shapes(potentials, possible_tags)
    return expectations(potentials, possible_tags).log_partition


@exact
def log_partition_and_gradient(
    potentials: Potentials, possible_tags: Tensor | None = None, weights: Tensor | None = None
) -> tuple[Tensor, Gradient]:
    """Compute log Z and its gradient, the expected counts of tags and moves.

    potentials (Potentials): The potentials.
    possible_tags (Optional[Tensor]): True where a tag is possible, None if all are.
        (n_docs, n_tokens, n_tags), bool
    weights (Optional[Tensor]): What the gradient of each document is multiplied with; None for 1.
        (n_docs,), float
    RETURNS (tuple[Tensor, Gradient]): log Z, in nats, and the gradient of its weighted sum.
        (n_docs,), float64 where the device has it
    RAISES (ValueError): CRF101, CRF102, CRF103.
    REFERENCE: Sutton and McCallum 2012, equation 5.7
    """
    check_shapes(potentials, possible_tags)
    expected = expectations(potentials, possible_tags, weights)
    if weights is not None:
        expected.marginals.mul_(weights.unsqueeze(1))
    return expected.log_partition, _gradient(expected, potentials)


@exact
def path_log_prob(potentials: Potentials, tags: Tensor, possible_tags: Tensor | None = None) -> Tensor:
    """Compute the log probability of given tag paths.

    potentials (Potentials): The potentials.
    tags (Tensor): One path per document.
        (n_docs, n_tokens), int64
    possible_tags (Optional[Tensor]): True where a tag is possible, None if all are.
        (n_docs, n_tokens, n_tags), bool
    RETURNS (Tensor): Log probabilities, in nats, at most 0; -inf for an impossible path.
        (n_docs,), float64 where the device has it
    RAISES (ValueError): CRF101, CRF102, CRF103.
    """
    return nll(potentials, tags, possible_tags).neg_()


@exact
def nll(potentials: Potentials, tags: Tensor, possible_tags: Tensor | None = None) -> Tensor:
    """Compute the negative log likelihood of a complete annotation.

    potentials (Potentials): The potentials.
    tags (Tensor): The annotated path of each document.
        (n_docs, n_tokens), int64
    possible_tags (Optional[Tensor]): True where a tag is possible, None if all are.
        (n_docs, n_tokens, n_tags), bool
    RETURNS (Tensor): The loss, in nats per document, at least 0; inf for an impossible path.
        (n_docs,), float64 where the device has it
    RAISES (ValueError): CRF101, CRF102, CRF103.
    REFERENCE: Lafferty, McCallum and Pereira 2001.
    """
    check_shapes(potentials, tags, possible_tags)
    log_z = expectations(potentials, possible_tags).log_partition
    return _loss(log_z, _possible_score(potentials, tags, possible_tags))


@exact
def marginal_nll(potentials: Potentials, allowed_tags: Tensor, possible_tags: Tensor | None = None) -> Tensor:
    """Compute the negative log likelihood of a partial annotation: -log P(path within `allowed_tags`).

    potentials (Potentials): The potentials.
    allowed_tags (Tensor): True where the annotation leaves a tag open.
        (n_docs, n_tokens, n_tags), bool
    possible_tags (Optional[Tensor]): True where a tag is possible, None if all are.
        (n_docs, n_tokens, n_tags), bool
    RETURNS (Tensor): The loss, in nats per document, at least 0; exactly 0 where everything possible is allowed.
        (n_docs,), float64 where the device has it
    RAISES (ValueError): CRF101, CRF102, CRF103.
    """
    return marginal_nll_and_gradient(potentials, allowed_tags, possible_tags)[0]


@exact
def nll_and_gradient(
    potentials: Potentials, tags: Tensor, possible_tags: Tensor | None = None
) -> tuple[Tensor, Gradient]:
    """Compute `nll` and its gradient.

    potentials (Potentials): The potentials.
    tags (Tensor): The annotated path of each document.
        (n_docs, n_tokens), int64
    possible_tags (Optional[Tensor]): True where a tag is possible, None if all are.
        (n_docs, n_tokens, n_tags), bool
    RETURNS (tuple[Tensor, Gradient]): The loss, in nats per document, and the gradient of its sum.
        (n_docs,), float64 where the device has it
    RAISES (ValueError): CRF101, CRF102, CRF103; CRF104 if an annotated path is impossible.
    REFERENCE: Lafferty, McCallum and Pereira 2001.
    """
    check_shapes(potentials, tags, possible_tags)
    score = _possible_score(potentials, tags, possible_tags)
    if (score == float("-inf")).any():
        raise ValueError(Errors.CRF104.format(doc=int((score == float("-inf")).nonzero()[0])))
    expected = expectations(potentials, possible_tags)
    _subtract_path(expected, potentials, tags)
    return _loss(expected.log_partition, score), _gradient(expected, potentials)


@exact
def marginal_nll_and_gradient(
    potentials: Potentials, allowed_tags: Tensor, possible_tags: Tensor | None = None
) -> tuple[Tensor, Gradient]:
    """Compute `marginal_nll` and its gradient, exactly zero for documents in which everything possible is allowed.

    potentials (Potentials): The potentials.
    allowed_tags (Tensor): True where the annotation leaves a tag open.
        (n_docs, n_tokens, n_tags), bool
    possible_tags (Optional[Tensor]): True where a tag is possible, None if all are.
        (n_docs, n_tokens, n_tags), bool
    RETURNS (tuple[Tensor, Gradient]): The loss, in nats per document, and the gradient of its sum.
        (n_docs,), float64 where the device has it
    RAISES (ValueError): CRF101, CRF102, CRF103.
    REFERENCE: Tsuboi et al. 2008, equation 4.
    """
    check_shapes(potentials, allowed_tags, possible_tags)
    if possible_tags is not None:
        allowed_tags = allowed_tags & possible_tags
    closed = ~allowed_tags if possible_tags is None else possible_tags & ~allowed_tags
    closed = closed & ~padding_mask(potentials).t().unsqueeze(2)
    docs = closed.flatten(1).any(dim=1).nonzero().squeeze(1)
    annotated = select(potentials, docs)
    expected = expectations(annotated, None if possible_tags is None else possible_tags[docs])
    observed = expectations(annotated, allowed_tags[docs])
    expected.marginals.sub_(observed.marginals)
    expected.moves.sub_(observed.moves)
    part = _gradient(expected, annotated)
    loss = expected.log_partition.new_zeros(len(potentials.lengths))
    loss[docs] = _loss(expected.log_partition, observed.log_partition)
    emissions = torch.zeros_like(potentials.emissions)
    emissions[docs] = part.emissions
    return loss, part._replace(emissions=emissions)


def _loss(log_z: Tensor, score: Tensor) -> Tensor:
    # Rounding alone could make a certain document's loss negative.
    return torch.sub(log_z, score).clamp_(min=0.0)


def _possible_score(potentials: Potentials, tags: Tensor, possible_tags: Tensor | None) -> Tensor:
    score = path_score(potentials, tags)
    if possible_tags is None:
        return score
    padding = padding_mask(potentials).t()
    possible = possible_tags.gather(2, tags.masked_fill(padding, 0).unsqueeze(2)).squeeze(2)
    return score.masked_fill_((~possible & ~padding).any(dim=1), float("-inf"))


def _subtract_path(expected: Expectations, potentials: Potentials, tags: Tensor) -> None:
    n_docs, n_tokens, n_tags = potentials.emissions.shape
    padding = padding_mask(potentials)
    path = potentials.lengths.new_full((n_tokens + 1, n_docs), n_tags)
    path[:-1] = tags.t().masked_fill(padding, n_tags)
    minus = expected.marginals.new_full((1, 1, 1), -1.0).expand(*path.shape, 1)
    expected.marginals.scatter_add_(2, path.unsqueeze(2), minus)
    used = (path[:-1] * (n_tags + 1) + path[1:]).flatten()
    counts = torch.bincount(used, minlength=(n_tags + 1) ** 2).view(n_tags + 1, n_tags + 1)
    expected.moves.sub_(counts)


def _gradient(difference: Expectations, potentials: Potentials) -> Gradient:
    # In the padding the END tag alone is expected and observed.
    emissions = difference.marginals[:-1, :, :-1]
    starts = emissions[0].sum(dim=0) if len(emissions) else emissions.new_zeros(emissions.shape[2])
    return Gradient(
        emissions.to(potentials.emissions.dtype).transpose(0, 1),
        difference.moves[:-1, :-1].to(potentials.transitions.dtype),
        starts.to(potentials.start_transitions.dtype),
        difference.moves[:-1, -1].to(potentials.end_transitions.dtype),
    )
