"""Forward-backward for a batch, each document on the fastest route that is exact for it."""

from typing import NamedTuple

import torch
from torch import Tensor

from . import log_space, probability_space
from .potentials import Potentials, has_float64


class Expectations(NamedTuple):
    """What the CRF expects of a batch.

    log_partition (Tensor): log Z of each document.
        (n_docs,), float
    marginals (Tensor): P(tag at step), 0 in the padding. The last step and tag are END.
        (n_tokens + 1, n_docs, n_tags + 1), float
    moves (Tensor): Expected number of uses of each move, summed over documents.
        (n_tags + 1, n_tags + 1), float
    """

    log_partition: Tensor
    marginals: Tensor
    moves: Tensor


def select(potentials: Potentials, docs: Tensor) -> Potentials:
    """Keep some documents of a batch.

    potentials (Potentials): The batch.
    docs (Tensor): Indices of the documents.
        (n_selected,), int64
    RETURNS (Potentials): The smaller batch.
    """
    return potentials._replace(emissions=potentials.emissions[docs], lengths=potentials.lengths[docs])


def expectations(
    potentials: Potentials, possible_tags: Tensor | None = None, weights: Tensor | None = None
) -> Expectations:
    """Compute log Z, marginals and expected moves.

    potentials (Potentials): The potentials.
    possible_tags (Optional[Tensor]): True where a tag is possible.
        (n_docs, n_tokens, n_tags), bool
    weights (Optional[Tensor]): How much each document counts in `moves`; None for 1.
        (n_docs,), float
    RETURNS (Expectations): The expectations.
    RAISES (ValueError): CRF101, CRF102.
    """
    plan = _plan(potentials, possible_tags)
    if plan is None:
        return _expectations_log_space(potentials, possible_tags, weights)
    messages = probability_space.messages(potentials, possible_tags, plan)
    joint, total, unsafe = probability_space.local_totals(messages, plan.interval)
    any_unsafe = bool(unsafe.any())
    if any_unsafe:
        total.masked_fill_(unsafe, 1.0)
        messages.alpha.masked_fill_(unsafe.unsqueeze(1), 0.0)
        messages.entered.masked_fill_(unsafe.unsqueeze(1), 0.0)
    marginals = joint.div_(total.unsqueeze(2))
    leaving = messages.alpha.div_(total.unsqueeze(2))
    if weights is not None:
        leaving.mul_(weights.unsqueeze(1))
    leaving = leaving[:-1].flatten(0, 1)
    moves = torch.mm(leaving.t(), messages.entered[1:].flatten(0, 1)).mul_(messages.factors.transitions)
    result = Expectations(messages.log_partition, marginals, moves)
    return _repair(result, potentials, possible_tags, weights, unsafe) if any_unsafe else result


def _plan(potentials: Potentials, possible_tags: Tensor | None) -> probability_space.Plan | None:
    if not has_float64(potentials.emissions.device):
        return None
    return probability_space.make_plan(potentials, possible_tags)


def _repair(
    result: Expectations, potentials: Potentials, possible_tags: Tensor | None, weights: Tensor | None, unsafe: Tensor
) -> Expectations:
    docs = unsafe.nonzero().squeeze(1)
    possible, weights = (None if part is None else part[docs] for part in (possible_tags, weights))
    part = _expectations_log_space(select(potentials, docs), possible, weights, docs)
    result.log_partition[docs] = part.log_partition
    result.marginals[:, docs] = part.marginals
    result.moves.add_(part.moves)
    return result


def _expectations_log_space(
    potentials: Potentials, possible_tags: Tensor | None, weights: Tensor | None, docs: Tensor | None = None
) -> Expectations:
    messages = log_space.log_messages(potentials, possible_tags, docs)
    marginals, _ = log_space.log_marginals(messages)
    return Expectations(messages.log_partition, marginals.exp_(), log_space.expected_moves(messages, weights))


def log_forward_backward(potentials: Potentials, possible_tags: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Compute log alpha, log beta and log Z, END included.

    potentials (Potentials): The potentials.
    possible_tags (Optional[Tensor]): True where a tag is possible.
        (n_docs, n_tokens, n_tags), bool
    RETURNS (tuple[Tensor, Tensor, Tensor]): log alpha, log beta and log Z.
        twice (n_tokens + 1, n_docs, n_tags + 1), and (n_docs,), float
    RAISES (ValueError): CRF101, CRF102.
    """
    plan = _plan(potentials, possible_tags)
    if plan is None:
        return _log_forward_backward(potentials, possible_tags)
    messages = probability_space.messages(potentials, possible_tags, plan)
    _, _, unsafe = probability_space.local_totals(messages, plan.interval)
    alpha = messages.alpha.log_().add_(messages.alpha_offset.unsqueeze(2))
    beta = messages.beta.log_().add_(messages.beta_offset.unsqueeze(2))
    log_z = messages.log_partition
    if bool(unsafe.any()):
        docs = unsafe.nonzero().squeeze(1)
        possible = None if possible_tags is None else possible_tags[docs]
        alpha[:, docs], beta[:, docs], log_z[docs] = _log_forward_backward(select(potentials, docs), possible, docs)
    return alpha, beta, log_z


def _log_forward_backward(
    potentials: Potentials, possible_tags: Tensor | None, docs: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    messages = log_space.log_messages(potentials, possible_tags, docs)
    alpha = messages.alpha + messages.alpha_offset.unsqueeze(2)
    beta = messages.beta + messages.beta_offset.unsqueeze(2)
    return alpha, beta, messages.log_partition
