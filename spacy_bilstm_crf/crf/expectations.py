"""Sums over all paths of a batch, each document on the fastest route that is exact for it."""

from typing import NamedTuple

import torch
from torch import Tensor

from . import log_space, probability_space
from .lattice import Lattice, select_docs
from .potentials import has_float64


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


def expect(lattice: Lattice, weights: Tensor | None = None, *, doc_index: Tensor | None = None) -> Expectations:
    """Compute log Z, marginals and expected moves.

    lattice (Lattice): The lattice.
    weights (Tensor | None): How much each document counts in the moves, None for 1.
        (n_docs,), float
    doc_index (Tensor | None): Index of each document in the caller's batch, for error messages.
        (n_docs,), int64
    RETURNS (Expectations): The expectations.
    RAISES (ValueError): CRF101, CRF102.
    """
    plan = _make_plan(lattice)
    if plan is None:
        return _expect_in_log_space(lattice, weights, doc_index)
    messages = probability_space.pass_messages(lattice, plan)
    joint = messages.beta.mul_(messages.alpha[:-1])
    total = joint.sum(dim=2)
    unsafe = probability_space.find_unsafe(messages, total, plan)
    if unsafe is not None:
        total.masked_fill_(unsafe, 1.0)
        for tensor in (messages.alpha, messages.entered, joint):
            tensor.masked_fill_(unsafe.unsqueeze(1), 0.0)
    marginals = joint.div_(total.unsqueeze(2))
    # Without tokens all that begins is END.
    begun = marginals[0] if len(marginals) else messages.alpha[0]
    result = Expectations(messages.log_partition, marginals, _count_moves(messages, total, begun, weights))
    return result if unsafe is None else _repair(result, lattice, weights, unsafe.nonzero().squeeze(1), doc_index)


def _count_moves(messages: probability_space.Messages, total: Tensor, begun: Tensor, weights: Tensor | None) -> Tensor:
    leaving = messages.alpha[:-1].div(total.unsqueeze(2))
    if weights is not None:
        leaving.mul_(weights.unsqueeze(1))
        begun = begun * weights.unsqueeze(1)
    moves = torch.empty_like(messages.moves)
    torch.mm(leaving.flatten(0, 1).t(), messages.entered[1:].flatten(0, 1), out=moves[:-1]).mul_(messages.moves[:-1])
    torch.sum(begun, 0, out=moves[-1])
    return moves


def log_messages(lattice: Lattice) -> LogMessages:
    """Compute log alpha, log beta and log Z.

    lattice (Lattice): The lattice.
    RETURNS (LogMessages): The messages.
    RAISES (ValueError): CRF101, CRF102.
    """
    plan = _make_plan(lattice)
    if plan is None:
        return _messages_in_log_space(lattice)
    messages = probability_space.pass_messages(lattice, plan)
    total = (messages.beta * messages.alpha[:-1]).sum(dim=2)
    unsafe = probability_space.find_unsafe(messages, total, plan)
    steps = messages.moves.new_zeros(2, *plan.shift.shape)
    steps[:, plan.interval :: plan.interval] = messages.log_scale.transpose(0, 1)
    alpha_offset = (steps[0] + plan.shift).cumsum(dim=0)
    entered_offset = (steps[1] + plan.shift.flip(0)).cumsum(dim=0).flip(0)
    alpha = messages.alpha[:-1].log().add_(alpha_offset[:-1].unsqueeze(2))
    beta = messages.beta.log().add_(entered_offset[1:].unsqueeze(2))
    if unsafe is not None:
        docs = unsafe.nonzero().squeeze(1)
        part = _messages_in_log_space(select_docs(lattice, docs), docs)
        alpha[:, docs], beta[:, docs] = part.alpha, part.beta
        messages.log_partition[docs] = part.log_partition
    return LogMessages(alpha, beta, messages.log_partition)


def _make_plan(lattice: Lattice) -> probability_space.Plan | None:
    return probability_space.make_plan(lattice) if has_float64(lattice.emissions.device) else None


def _repair(
    result: Expectations, lattice: Lattice, weights: Tensor | None, docs: Tensor, doc_index: Tensor | None
) -> Expectations:
    weights, doc_index = None if weights is None else weights[docs], docs if doc_index is None else doc_index[docs]
    part = _expect_in_log_space(select_docs(lattice, docs), weights, doc_index)
    result.log_partition[docs] = part.log_partition
    result.marginals[:, docs] = part.marginals
    result.moves.add_(part.moves)
    return result


def _expect_in_log_space(lattice: Lattice, weights: Tensor | None, doc_index: Tensor | None) -> Expectations:
    messages = log_space.log_messages(lattice, doc_index)
    marginals, moves = log_space.expected_counts(messages, weights)
    return Expectations(messages.log_partition, marginals, moves)


def _messages_in_log_space(lattice: Lattice, doc_index: Tensor | None = None) -> LogMessages:
    messages = log_space.log_messages(lattice, doc_index)
    alpha = messages.alpha.add(messages.alpha_offset.unsqueeze(2))
    beta = messages.beta.add(messages.beta_offset.unsqueeze(2))
    return LogMessages(alpha[:-1], beta[:-1], messages.log_partition)
