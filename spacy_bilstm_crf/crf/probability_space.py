"""Forward-backward as float64 matrix products of scaled probabilities, and the guard that says when not to trust them.

A product of probabilities that rounds to zero is lost for good, and with hard masks what was lost may be all there is.
So the guard proves that nothing was: every positive number is at least `FLOOR` after each rescaling, and rescaling
comes so often that no product of positive factors can fall below 1e-300 before the next. Documents for which this
cannot be shown are left to log space.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from .lattice import Lattice

# Nats that a number may lose between two rescalings: 200 decades, from FLOOR down to 1e-300.
BUDGET = 460.0
FLOOR = 1e-100
# Nats that a sum may gain between two rescalings: with bounded totals no product can overflow.
GROWTH = 150.0
SMALLEST_TOTAL, LARGEST_TOTAL = 1e-150, 1e150
# Most steps between two rescalings.
INTERVAL = 16


class Plan(NamedTuple):
    """How to scale a batch so that nothing is lost.

    shift (Tensor): Best emission of each token, taken off before emissions become probabilities; 0 in the padding.
        (n_tokens + 1, n_docs), float
    interval (int): Steps between two rescalings.
    unsafe (Tensor | None): Documents whose scores spread too far for that, None if there are none.
        (n_docs,), bool
    """

    shift: Tensor
    interval: int
    unsafe: Tensor | None


class Messages(NamedTuple):
    """Scaled forward and backward probabilities.

    alpha (Tensor): Paths up to and including a step, by the tag there.
        (n_tokens + 1, n_docs, n_tags + 1), float64
    entered (Tensor): Paths from a step on, by the tag there, the factor of the step included.
        (n_tokens + 1, n_docs, n_tags + 1), float64
    beta (Tensor): Paths behind a step, by the tag there, on the scale of the step behind. The END step is left out.
        (n_tokens, n_docs, n_tags + 1), float64
    moves (Tensor): exp of the scores of moves.
        (n_tags + 2, n_tags + 1), float64
    rescaled (Tensor): What alpha and entered were right after each rescaling.
        (n_rescalings, 2, n_docs, n_tags + 1), float64
    log_scale (Tensor): Logs of what alpha and entered were divided by, at the first rescaling, the second and so on,
        alpha from the first step on and entered from the last step back.
        (n_rescalings, 2, n_docs), float64
    log_partition (Tensor):
        (n_docs,), float64
    """

    alpha: Tensor
    entered: Tensor
    beta: Tensor
    moves: Tensor
    rescaled: Tensor
    log_scale: Tensor
    log_partition: Tensor


def make_plan(lattice: Lattice) -> Plan | None:
    """Choose the interval from the spread of the scores.

    lattice (Lattice): The lattice.
    RETURNS (Plan | None): The plan, None if no document is safe.
    """
    largest = float(lattice.moves.nan_to_num(nan=float("inf"), neginf=0.0).abs().amax())
    gain = largest + math.log(lattice.moves.shape[1])
    # Written so that NaN is unsafe, here and below.
    if not gain <= GROWTH or not lattice.padding.numel():
        return None
    shift = lattice.emissions.amax(dim=2)
    unsafe = None
    if lattice.raw.numel():
        low, high = torch.aminmax(lattice.raw)
        worst = float(high) - float(low) + largest
    else:
        worst = largest
    # Half of the budget, as the first rescaling comes one factor late.
    if not worst <= BUDGET / 2:
        spread = _spread(lattice, shift)
        unsafe = ~((spread >= 0.0) & (spread <= BUDGET / 2 - largest))
        if bool(unsafe.all()):
            return None
        worst = float(spread[~unsafe].amax()) + largest
    interval = min(INTERVAL, int(BUDGET / max(worst, 1.0)), int(GROWTH / gain))
    return Plan(shift, interval, unsafe)


def _spread(lattice: Lattice, top: Tensor) -> Tensor:
    # (n_docs,): the largest distance between possible tags of a token
    bottom = lattice.emissions.nan_to_num(nan=float("nan"), posinf=float("nan"), neginf=float("inf")).amin(dim=2)
    return (top - bottom).amax(dim=0)


def pass_messages(lattice: Lattice, plan: Plan) -> Messages:
    """Run forward-backward, both directions in one go: each is a matrix product and a factor per step.

    lattice (Lattice): The lattice, in log space.
    plan (Plan): How to scale.
    RETURNS (Messages): The messages; those of unsafe documents mean nothing.
    """
    moves = lattice.moves.exp()
    transitions = torch.stack([moves[:-1], moves[:-1].t()])
    messages = _both_ways(lattice.emissions, plan.shift)
    # Backward begins with the factor of the END step alone.
    messages[0, 0].mul_(moves[-1])
    scales = _recursion(messages, transitions, plan.interval)
    alpha, entered = messages[:, 0], messages[:, 1].flip(0)
    beta = torch.mm(entered[1:].flatten(0, 1), transitions[1]).view_as(entered[1:])
    log_scale = scales.log_()
    log_partition = alpha[-1, :, -1].log().add_(log_scale[:, 0].sum(dim=0)).add_(plan.shift.sum(0, dtype=moves.dtype))
    rescaled = messages[plan.interval :: plan.interval]
    return Messages(alpha, entered, beta, moves, rescaled, log_scale, log_partition)


def _both_ways(emissions: Tensor, shift: Tensor) -> Tensor:
    # (n_tokens + 1, 2, n_docs, n_tags + 1): factors in the order of time and against it
    steps, n_docs, n_tags = emissions.shape
    both = emissions.new_empty(steps, 2, n_docs, n_tags, dtype=torch.float64)
    factors = torch.sub(emissions, shift.to(both.dtype).unsqueeze(2), out=both[:, 0]).exp_()
    both[:, 1] = factors.flip(0)
    return both


def _recursion(messages: Tensor, transitions: Tensor, interval: int) -> Tensor:
    # Turns factors into messages in place; returns what was divided by.
    steps, _, n_docs, _ = messages.shape
    scales = messages.new_empty((steps - 1) // interval, 2, n_docs)
    product = torch.empty_like(messages[0])
    rows = messages.unbind(0)
    previous = rows[0]
    for step in range(1, steps):
        previous = rows[step].mul_(torch.bmm(previous, transitions, out=product))
        if step % interval == 0:
            total = torch.sum(previous, 2, out=scales[step // interval - 1])
            previous.div_(total.unsqueeze(2))
    return scales


def find_unsafe(messages: Messages, total: Tensor, plan: Plan) -> Tensor | None:
    """Complete the guard: look at what was left after each rescaling, and at the totals.

    messages (Messages): The messages.
    total (Tensor): alpha times beta, summed over tags.
        (n_tokens, n_docs), float64
    plan (Plan): How they were scaled.
    RETURNS (Tensor | None): Documents that must go to log space, None if there are none.
        (n_docs,), bool
    """
    unsafe = ~((total >= SMALLEST_TOTAL) & (total <= LARGEST_TOTAL)).all(dim=0)
    unsafe |= ((messages.rescaled > 0.0) & (messages.rescaled < FLOOR)).any(dim=3).flatten(0, 1).any(dim=0)
    if plan.unsafe is not None:
        unsafe |= plan.unsafe
    return unsafe if bool(unsafe.any()) else None
