"""Scores of paths, log Z, losses and their gradients: expected minus observed counts."""

import math

import torch
from torch import Tensor

from ..errors import Errors
from .expectations import Expectations, expect
from .lattice import build_lattice, padding_mask, path_moves, score_path
from .potentials import Gradient, Potentials, check_shapes, exact


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
    lattice = build_lattice(potentials, None)
    return score_path(lattice, *path_moves(lattice, tags))


@exact
def log_partition(potentials: Potentials, possible_tags: Tensor | None = None) -> Tensor:
    """Compute log Z, the log of the summed exponentiated scores of all paths.

    potentials (Potentials): The potentials.
    possible_tags (Tensor | None): True where a tag is possible, None if all are.
        (n_docs, n_tokens, n_tags), bool
    RETURNS (Tensor): log Z, in nats; 0 for a document of length 0.
        (n_docs,), float64 where the device has it
    RAISES (ValueError): CRF101 if a document has no path, CRF102 if scores are not finite, CRF103 on wrong shapes.
    """
    check_shapes(potentials, possible_tags)
    return expect(build_lattice(potentials, possible_tags)).log_partition


@exact
def log_partition_and_gradient(
    potentials: Potentials, possible_tags: Tensor | None = None, weights: Tensor | None = None
) -> tuple[Tensor, Gradient]:
    """Compute log Z and its gradient, the expected counts of tags and moves.

    potentials (Potentials): The potentials.
    possible_tags (Tensor | None): True where a tag is possible, None if all are.
        (n_docs, n_tokens, n_tags), bool
    weights (Tensor | None): What the gradient of each document is multiplied with; None for 1.
        (n_docs,), float
    RETURNS (tuple[Tensor, Gradient]): log Z, in nats, and the gradient of its weighted sum.
        (n_docs,), float64 where the device has it
    RAISES (ValueError): CRF101, CRF102, CRF103.
    REFERENCE: Sutton and McCallum 2012, equation 5.7
    """
    check_shapes(potentials, possible_tags)
    expected = expect(build_lattice(potentials, possible_tags), weights)
    if weights is not None:
        expected.marginals.mul_(weights.unsqueeze(1))
    return expected.log_partition, _gradient(expected, potentials)


@exact
def path_log_prob(potentials: Potentials, tags: Tensor, possible_tags: Tensor | None = None) -> Tensor:
    """Compute the log probability of given tag paths.

    potentials (Potentials): The potentials.
    tags (Tensor): One path per document.
        (n_docs, n_tokens), int64
    possible_tags (Tensor | None): True where a tag is possible, None if all are.
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
    possible_tags (Tensor | None): True where a tag is possible, None if all are.
        (n_docs, n_tokens, n_tags), bool
    RETURNS (Tensor): The loss, in nats per document, at least 0; inf for an impossible path.
        (n_docs,), float64 where the device has it
    RAISES (ValueError): CRF101, CRF102, CRF103.
    REFERENCE: Lafferty, McCallum and Pereira 2001.
    """
    check_shapes(potentials, tags, possible_tags)
    lattice = build_lattice(potentials, possible_tags)
    score = score_path(lattice, *path_moves(lattice, tags))
    return _loss(expect(lattice).log_partition, score)


@exact
def marginal_nll(potentials: Potentials, allowed_tags: Tensor, possible_tags: Tensor | None = None) -> Tensor:
    """Compute the negative log likelihood of a partial annotation: -log P(path within `allowed_tags`).

    potentials (Potentials): The potentials.
    allowed_tags (Tensor): True where the annotation leaves a tag open.
        (n_docs, n_tokens, n_tags), bool
    possible_tags (Tensor | None): True where a tag is possible, None if all are.
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
    possible_tags (Tensor | None): True where a tag is possible, None if all are.
        (n_docs, n_tokens, n_tags), bool
    RETURNS (tuple[Tensor, Gradient]): The loss, in nats per document, and the gradient of its sum.
        (n_docs,), float64 where the device has it
    RAISES (ValueError): CRF101, CRF102, CRF103; CRF104 if an annotated path is impossible.
    REFERENCE: Lafferty, McCallum and Pereira 2001.
    """
    check_shapes(potentials, tags, possible_tags)
    lattice = build_lattice(potentials, possible_tags)
    path, moves = path_moves(lattice, tags)
    expected = expect(lattice)
    loss = _loss(expected.log_partition, score_path(lattice, path, moves))
    if not math.isfinite(float(loss.sum())):
        raise ValueError(Errors.CRF104.format(doc=int((~torch.isfinite(loss)).nonzero()[0])))
    minus = expected.marginals.new_full((1, 1, 1), -1.0).expand(*path.shape, 1)
    expected.marginals.scatter_add_(2, path.unsqueeze(2), minus)
    expected.moves.view(-1).sub_(torch.bincount(moves.flatten(), minlength=expected.moves.numel()))
    return loss, _gradient(expected, potentials)


@exact
def marginal_nll_and_gradient(
    potentials: Potentials, allowed_tags: Tensor, possible_tags: Tensor | None = None
) -> tuple[Tensor, Gradient]:
    """Compute `marginal_nll` and its gradient, exactly zero for documents in which everything possible is allowed.

    potentials (Potentials): The potentials.
    allowed_tags (Tensor): True where the annotation leaves a tag open.
        (n_docs, n_tokens, n_tags), bool
    possible_tags (Tensor | None): True where a tag is possible, None if all are.
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
    closed = closed & ~padding_mask(potentials.lengths, closed.shape[1]).t().unsqueeze(2)
    docs = closed.flatten(1).any(dim=1).nonzero().squeeze(1)
    annotated = potentials._replace(emissions=potentials.emissions[docs], lengths=potentials.lengths[docs])
    expected = expect(build_lattice(annotated, None if possible_tags is None else possible_tags[docs]), doc_index=docs)
    observed = expect(build_lattice(annotated, allowed_tags[docs]), doc_index=docs)
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


def _gradient(difference: Expectations, potentials: Potentials) -> Gradient:
    # In the padding the END tag alone is expected and observed.
    n_tags = potentials.emissions.shape[2]
    moves = difference.moves.to(potentials.transitions.dtype)
    return Gradient(
        difference.marginals[:, :, :n_tags].to(potentials.emissions.dtype).transpose(0, 1),
        moves[:n_tags, :n_tags],
        moves[n_tags + 1, :n_tags].to(potentials.start_transitions.dtype),
        moves[:n_tags, n_tags].to(potentials.end_transitions.dtype),
    )
