"""Forward-backward in log space: slower than probability space, exact at any scale, and content with float32."""

from typing import NamedTuple

import torch
from torch import Tensor

from .lattice import Lattice
from .potentials import check_log_partition


class LogMessages(NamedTuple):
    """Forward and backward scores, each step lowered so that its best tag has 0, and what was taken off.

    lattice (Lattice): What the recursion ran on.
    alpha (Tensor): Paths up to and including a step, by the tag there.
        (n_tokens + 1, n_docs, n_tags + 1), float
    beta (Tensor): Paths behind a step, by the tag there.
        (n_tokens + 1, n_docs, n_tags + 1), float
    alpha_offset (Tensor): To be added to alpha.
        (n_tokens + 1, n_docs), float
    beta_offset (Tensor): To be added to beta.
        (n_tokens + 1, n_docs), float
    log_partition (Tensor):
        (n_docs,), float
    """

    lattice: Lattice
    alpha: Tensor
    beta: Tensor
    alpha_offset: Tensor
    beta_offset: Tensor
    log_partition: Tensor


def _lower(scores: Tensor) -> Tensor:
    # Lower each row in place so that its maximum is 0; return what was taken off. A row of -inf stays.
    top = scores.amax(dim=-1)
    top.masked_fill_(top == float("-inf"), 0.0)
    scores.sub_(top.unsqueeze(-1))
    return top


def _forward(lattice: Lattice) -> tuple[Tensor, Tensor]:
    alpha = torch.empty_like(lattice.emissions)
    taken = lattice.emissions.new_empty(lattice.emissions.shape[:2])
    torch.add(lattice.emissions[0], lattice.moves[-1], out=alpha[0])
    taken[0] = _lower(alpha[0])
    transitions = lattice.moves[:-1]
    for step in range(1, len(alpha)):
        moves = alpha[step - 1].unsqueeze(2) + transitions  # (n_docs, from, to)
        torch.add(moves.logsumexp(dim=1), lattice.emissions[step], out=alpha[step])
        taken[step] = _lower(alpha[step])
    return alpha, taken.cumsum(dim=0)


def _backward(lattice: Lattice) -> tuple[Tensor, Tensor]:
    beta = torch.full_like(lattice.emissions, float("-inf"))
    taken = lattice.emissions.new_zeros(lattice.emissions.shape[:2])
    beta[-1, :, -1] = 0.0
    transitions = lattice.moves[:-1]
    for step in range(len(beta) - 2, -1, -1):
        entered = lattice.emissions[step + 1] + beta[step + 1]
        beta[step] = (entered.unsqueeze(1) + transitions).logsumexp(dim=2)
        taken[step] = _lower(beta[step])
    return beta, taken.flip(0).cumsum(dim=0).flip(0)


def log_total(lattice: Lattice) -> Tensor:
    """Add up all paths as `log_messages` does, without refusing documents that have none.

    lattice (Lattice): The lattice.
    RETURNS (Tensor): log Z, -inf where there is no path.
        (n_docs,), float
    """
    alpha, offset = _forward(lattice._replace(emissions=lattice.emissions.to(lattice.moves.dtype)))
    return alpha[-1, :, -1] + offset[-1]


def log_messages(lattice: Lattice, doc_index: Tensor | None = None) -> LogMessages:
    """Run forward-backward in log space.

    lattice (Lattice): The lattice.
    doc_index (Tensor | None): Index of each document in the caller's batch, for error messages.
        (n_docs,), int64
    RETURNS (LogMessages): The messages.
    RAISES (ValueError): CRF101, CRF102.
    """
    lattice = lattice._replace(emissions=lattice.emissions.to(lattice.moves.dtype))
    alpha, alpha_offset = _forward(lattice)
    log_z = alpha[-1, :, -1] + alpha_offset[-1]
    check_log_partition(log_z, doc_index)
    beta, beta_offset = _backward(lattice)
    return LogMessages(lattice, alpha, beta, alpha_offset, beta_offset, log_z)


def expected_counts(messages: LogMessages, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Compute marginals and count the moves that are expected over all documents.

    messages (LogMessages): The messages.
    weights (Tensor | None): How much each document counts in the moves; None for 1.
        (n_docs,), float
    RETURNS (tuple[Tensor, Tensor]): P(tag at token), END included, and the expected number of uses of each move.
        (n_tokens, n_docs, n_tags + 1) and (n_tags + 2, n_tags + 1), float
    """
    lattice = messages.lattice
    marginals = (messages.alpha + messages.beta).softmax(dim=2)
    counts = torch.zeros_like(lattice.moves)
    weight = marginals.new_ones(marginals.shape[1]) if weights is None else weights
    counts[-1] = torch.mv(marginals[0].t(), weight)
    for step in range(len(messages.alpha) - 1):
        entered = lattice.emissions[step + 1] + messages.beta[step + 1]
        joint = messages.alpha[step].unsqueeze(2) + lattice.moves[:-1] + entered.unsqueeze(1)
        counts[:-1] += torch.mv(joint.flatten(1).softmax(dim=1).t(), weight).view_as(counts[:-1])
    return marginals[:-1], counts
