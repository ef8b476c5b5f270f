"""Forward-backward as float64 matrix products of scaled probabilities, and the guard that says when not to trust them.

A product of probabilities that rounds to zero is lost for good, and with hard masks what was lost may be all there is.
So the guard proves that nothing was: every positive number is at least `FLOOR` after each rescaling, and rescaling
comes so often that no product of positive factors can fall below 1e-300 before the next. Documents for which this
cannot be shown are left to log space.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from .lattice import Lattice
from .potentials import Potentials

# Nats that a number may lose between two rescalings: 200 decades, from FLOOR down to 1e-300.
BUDGET = 460.0
FLOOR = 1e-100
# Nats that moves may add between two rescalings: with bounded totals no product can overflow.
GROWTH = 100.0
SMALLEST_TOTAL, LARGEST_TOTAL = 1e-150, 1e150
INTERVAL = 8


class Plan(NamedTuple):
    """How to scale a batch so that nothing is lost.

    shift (Tensor): What is taken off the emissions before they become probabilities, 0 in the padding.
        (n_tokens + 1, n_docs), float64
    interval (int): Steps between two rescalings.
    unsafe (Tensor): Documents whose scores spread too far for that.
        (n_docs,), bool
    """

    shift: Tensor
    interval: int
    unsafe: Tensor


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
    log_scale: Tensor
    log_partition: Tensor


def make_plan(potentials: Potentials, lattice: Lattice) -> Plan | None:
    """Choose shift and interval from the spread of the scores.

    potentials (Potentials): The potentials.
    lattice (Lattice): Their lattice.
    RETURNS (Plan | None): The plan, None if no document is safe.
    """
    largest = float(lattice.moves.nan_to_num(nan=float("inf"), neginf=0.0).abs().amax())
    if largest > GROWTH or not lattice.padding.numel():
        return None
    if potentials.emissions.numel() and largest <= GROWTH / INTERVAL:
        # Most batches pass this test, which looks at padding and impossible tags as well.
        low, high = (float(bound) for bound in torch.aminmax(potentials.emissions))
        if high - low + largest <= BUDGET / INTERVAL:
            shift = lattice.padding.logical_not().to(torch.float64).mul_(high)
            return Plan(shift, INTERVAL, torch.zeros_like(potentials.lengths, dtype=torch.bool))
    top = lattice.emissions.amax(dim=2)
    bottom = lattice.emissions.masked_fill(torch.isneginf(lattice.emissions), float("inf")).amin(dim=2)
    spread = (top - bottom).amax(dim=0).to(torch.float64).add_(largest)
    # Half of the budget, as the first rescaling comes one factor late. Written so that NaN and tokens without a
    # possible tag are unsafe.
    unsafe = ~((spread <= BUDGET / 2) & ~torch.isneginf(top).any(dim=0))
    if bool(unsafe.all()):
        return None
    worst = max(float(spread[~unsafe].amax()), 1.0)
    interval = min(INTERVAL, int(BUDGET / worst), int(GROWTH / max(largest, 1.0)))
    return Plan(top.to(torch.float64), interval, unsafe)


def pass_messages(lattice: Lattice, plan: Plan) -> Messages:
    """Run forward-backward, both directions in one go: each is a matrix product and a factor per step.

    lattice (Lattice): The lattice, in log space.
    plan (Plan): How to scale.
    RETURNS (Messages): The messages; those of unsafe documents mean nothing.
    """
    factors = lattice.emissions.to(torch.float64).sub_(plan.shift.unsqueeze(2)).exp_()
    moves = lattice.moves.to(torch.float64).exp_()
    both = torch.stack([factors, factors.flip(0)], dim=1)  # (n_tokens + 1, 2, n_docs, n_tags + 1)
    transitions = torch.stack([moves[:-1], moves[:-1].t()])
    # Backward begins with the factor of the END step, in which only END is possible.
    first = torch.stack([moves[-1], torch.ones_like(moves[-1])]).unsqueeze(1)
    messages, scales = _recursion(both, transitions, first, plan.interval)
    alpha, entered = messages[:, 0], messages[:, 1].flip(0)
    beta = torch.matmul(entered[1:], transitions[1])
    log_scale = scales.log_()
    log_partition = alpha[-1, :, -1].log().add_(log_scale[:, 0].sum(dim=0)).add_(plan.shift.sum(dim=0))
    return Messages(alpha, entered, beta, moves, log_scale, log_partition)


def _recursion(factors: Tensor, transitions: Tensor, first: Tensor, interval: int) -> tuple[Tensor, Tensor]:
    messages = torch.empty_like(factors)
    scales = factors.new_empty((len(factors) - 1) // interval, *factors.shape[1:3])
    inputs, rows = factors.unbind(0), messages.unbind(0)
    row = torch.mul(inputs[0], first, out=rows[0])
    for step in range(1, len(rows)):
        row = torch.bmm(row, transitions, out=rows[step]).mul_(inputs[step])
        if step % interval == 0:
            total = torch.sum(row, 2, out=scales[step // interval - 1])
            row.div_(total.unsqueeze(2))
    return messages, scales


def find_unsafe(messages: Messages, total: Tensor, plan: Plan) -> Tensor | None:
    """Complete the guard: look at what was left after each rescaling, and at the totals.

    messages (Messages): The messages.
    total (Tensor): alpha times beta, summed over tags.
        (n_tokens, n_docs), float64
    plan (Plan): How they were scaled.
    RETURNS (Tensor | None): Documents that must go to log space, None if there are none.
        (n_docs,), bool
    """
    unsafe = plan.unsafe
    for rows in (messages.alpha, messages.entered.flip(0)):
        rescaled = rows[plan.interval :: plan.interval]
        unsafe = unsafe | ((rescaled > 0.0) & (rescaled < FLOOR)).any(dim=2).any(dim=0)
    unsafe |= ~((total >= SMALLEST_TOTAL) & (total <= LARGEST_TOTAL)).all(dim=0)
    return unsafe if bool(unsafe.any()) else None
