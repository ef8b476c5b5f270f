"""Sums over all paths of a batch, each document on the fastest route that is exact for it."""

from typing import NamedTuple

import torch
from torch import Tensor

from . import log_space, probability_space
from .lattice import build_lattice
from .potentials import Potentials, has_float64


class Expectations(NamedTuple):
    """What the CRF expects of a batch.

    log_partition (Tensor): log Z of each document.
        (n_docs,), float
    marginals (Tensor): P(tag at token). In the padding END has 1.
        (n_tokens, n_docs, n_tags + 1), float
    moves (Tensor): Expected number of uses of each move, summed over documents, as in the lattice.
        (n_tags + 2, n_tags + 1), float
    """

    log_partition: Tensor
    marginals: Tensor
    moves: Tensor


class LogMessages(NamedTuple):
    """Forward and backward scores.

    alpha (Tensor): log of the sum over paths up to and including a token, by its tag.
        (n_tokens, n_docs, n_tags + 1), float
    beta (Tensor): log of the sum over paths behind a token, by its tag.
        (n_tokens, n_docs, n_tags + 1), float
    log_partition (Tensor):
        (n_docs,), float
    """

    alpha: Tensor
    beta: Tensor
    log_partition: Tensor


def select(potentials: Potentials, docs: Tensor) -> Potentials:
    """Keep some documents of a batch.

    potentials (Potentials): The batch.
    docs (Tensor): Indices of the documents.
        (n_selected,), int64
    RETURNS (Potentials): The smaller batch.
    """
    return potentials._replace(emissions=potentials.emissions[docs], lengths=potentials.lengths[docs])


def expect(
    potentials: Potentials, possible_tags: Tensor | None = None, weights: Tensor | None = None
) -> Expectations:
    """Compute log Z, marginals and expected moves.

    potentials (Potentials): The potentials.
    possible_tags (Tensor | None): True where a tag is possible.
        (n_docs, n_tokens, n_tags), bool
    weights (Tensor | None): How much each document counts in `moves`; None for 1.
        (n_docs,), float
    RETURNS (Expectations): The expectations.
    RAISES (ValueError): CRF101, CRF102.
    """
    fast = _try_probability_space(potentials, possible_tags)
    if fast is None:
        return _expectations_log_space(potentials, possible_tags, weights)
    plan, messages = fast
    joint = messages.beta.mul_(messages.alpha[:-1])
    total = joint.sum(dim=2)
    unsafe = probability_space.find_unsafe(messages, total, plan)
    if unsafe is not None:
        total.masked_fill_(unsafe, 1.0)
        messages.alpha.masked_fill_(unsafe.unsqueeze(1), 0.0)
        messages.entered.masked_fill_(unsafe.unsqueeze(1), 0.0)
        joint.masked_fill_(unsafe.unsqueeze(1), 0.0)
    marginals = joint.div_(total.unsqueeze(2))
    leaving = messages.alpha[:-1].div(total.unsqueeze(2))
    starts = marginals[0] if len(marginals) else messages.alpha[0]
    if weights is not None:
        leaving.mul_(weights.unsqueeze(1))
        starts = starts * weights.unsqueeze(1)
    moves = torch.mm(leaving.flatten(0, 1).t(), messages.entered[1:].flatten(0, 1)).mul_(messages.moves[:-1])
    moves = torch.cat([moves, starts.sum(dim=0, keepdim=True)])
    result = Expectations(messages.log_partition, marginals, moves)
    return result if unsafe is None else _repair(result, potentials, possible_tags, weights, unsafe)


def log_messages(potentials: Potentials, possible_tags: Tensor | None = None) -> LogMessages:
    """Compute log alpha, log beta and log Z.

    potentials (Potentials): The potentials.
    possible_tags (Tensor | None): True where a tag is possible.
        (n_docs, n_tokens, n_tags), bool
    RETURNS (LogMessages): The messages.
    RAISES (ValueError): CRF101, CRF102.
    """
    fast = _try_probability_space(potentials, possible_tags)
    if fast is None:
        return _messages_log_space(potentials, possible_tags)
    plan, messages = fast
    total = (messages.beta * messages.alpha[:-1]).sum(dim=2)
    unsafe = probability_space.find_unsafe(messages, total, plan)
    steps = plan.shift.new_zeros(2, *plan.shift.shape)
    steps[:, plan.interval :: plan.interval] = messages.log_scale.transpose(0, 1)
    alpha_offset = (steps[0] + plan.shift).cumsum(dim=0)
    entered_offset = (steps[1] + plan.shift.flip(0)).cumsum(dim=0).flip(0)
    alpha = messages.alpha[:-1].log().add_(alpha_offset[:-1].unsqueeze(2))
    beta = messages.beta.log().add_(entered_offset[1:].unsqueeze(2))
    if unsafe is not None:
        docs = unsafe.nonzero().squeeze(1)
        possible = None if possible_tags is None else possible_tags[docs]
        part = _messages_log_space(select(potentials, docs), possible, docs)
        alpha[:, docs], beta[:, docs] = part.alpha, part.beta
        messages.log_partition[docs] = part.log_partition
    return LogMessages(alpha, beta, messages.log_partition)


def _try_probability_space(
    potentials: Potentials, possible_tags: Tensor | None
) -> tuple[probability_space.Plan, probability_space.Messages] | None:
    if not has_float64(potentials.emissions.device):
        return None
    dtype = torch.promote_types(potentials.emissions.dtype, torch.float32)
    lattice = build_lattice(potentials, possible_tags, dtype)
    plan = probability_space.make_plan(potentials, lattice)
    return None if plan is None else (plan, probability_space.pass_messages(lattice, plan))


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
    marginals, moves = log_space.expected_counts(messages, weights)
    return Expectations(messages.log_partition, marginals, moves)


def _messages_log_space(
    potentials: Potentials, possible_tags: Tensor | None, docs: Tensor | None = None
) -> LogMessages:
    messages = log_space.log_messages(potentials, possible_tags, docs)
    alpha = messages.alpha.add(messages.alpha_offset.unsqueeze(2))
    beta = messages.beta.add(messages.beta_offset.unsqueeze(2))
    return LogMessages(alpha[:-1], beta[:-1], messages.log_partition)
