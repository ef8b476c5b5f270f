"""Forward-backward as float64 matrix products of scaled probabilities, and the guard that says when not to trust them.

A product of probabilities that rounds to zero is lost for good, and with hard masks what was lost may be all there is.
So the guard proves that nothing was: every positive number is at least `FLOOR` after each rescaling, and the
interval between rescalings is so short that no product of positive factors can fall below 1e-300 before the next.
Documents for which this cannot be shown are left to log space.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from .potentials import Lattice, Potentials, build_lattice, padding_mask

# Nats that a number may lose between two rescalings: 200 decades, from FLOOR down to 1e-300.
BUDGET = 460.0
FLOOR = 1e-100
# Nats that transitions may add between two rescalings: with bounded totals no product below can overflow.
GROWTH = 100.0
SMALLEST_TOTAL, LARGEST_TOTAL = 1e-150, 1e150
INTERVAL = 8


class Messages(NamedTuple):
    """Scaled forward and backward probabilities.

    factors (Lattice): What the recursion ran on, as probabilities.
    alpha (Tensor): Paths up to and including a step, by the tag there.
        (n_tokens + 1, n_docs, n_tags + 1), float64
    beta (Tensor): Paths behind a step, by the tag there.
        (n_tokens + 1, n_docs, n_tags + 1), float64
    entered (Tensor): `beta` times the factor of the step itself.
        (n_tokens + 1, n_docs, n_tags + 1), float64
    alpha_offset (Tensor): To be added to log alpha.
        (n_tokens + 1, n_docs), float64
    beta_offset (Tensor): To be added to log beta.
        (n_tokens + 1, n_docs), float64
    log_partition (Tensor):
        (n_docs,), float64
    unsafe (Tensor): Documents that the guard turns away; everything above is meaningless for them.
        (n_docs,), bool
    """

    factors: Lattice
    alpha: Tensor
    beta: Tensor
    entered: Tensor
    alpha_offset: Tensor
    beta_offset: Tensor
    log_partition: Tensor
    unsafe: Tensor


class Plan(NamedTuple):
    """How to scale a batch so that nothing is lost.

    shift (Tensor): What is taken off the emissions before they become probabilities.
        broadcasts to (n_tokens, n_docs, 1), float64
    interval (int): Steps between two rescalings.
    unsafe (Tensor): Documents whose scores spread too far.
        (n_docs,), bool
    """

    shift: Tensor
    interval: int
    unsafe: Tensor


def make_plan(potentials: Potentials, possible_tags: Tensor | None) -> Plan | None:
    """Choose shift and interval from the spread of the scores.

    potentials (Potentials): The potentials.
    possible_tags (Optional[Tensor]): True where a tag is possible.
        (n_docs, n_tokens, n_tags), bool
    RETURNS (Plan | None): The plan, None if no document is safe.
    """
    emissions = potentials.emissions
    moves = _largest_move(potentials)
    if emissions.numel():
        low, high = (float(x) for x in torch.stack(torch.aminmax(emissions)).tolist())
        if moves <= GROWTH / INTERVAL and high - low + moves <= BUDGET / INTERVAL:
            unsafe = torch.zeros_like(potentials.lengths, dtype=torch.bool)
            return Plan(emissions.new_tensor(high, dtype=torch.float64), INTERVAL, unsafe)
    shift, spread = _spread(potentials, possible_tags)
    # Written so that NaN is unsafe.
    unsafe = ~(spread + moves <= BUDGET / 2)
    if not moves <= GROWTH or bool(unsafe.all()):
        return None
    return Plan(shift, _interval(float(spread[~unsafe].amax()) + moves, moves), unsafe)


def _interval(spread: float, moves: float) -> int:
    return max(1, min(INTERVAL, int(BUDGET / max(spread, 1.0)), int(GROWTH / max(moves, 1.0))))


def _largest_move(potentials: Potentials) -> float:
    scores = torch.cat([potentials.transitions.flatten(), potentials.start_transitions, potentials.end_transitions])
    return float(scores.masked_fill(scores == float("-inf"), 0.0).abs().amax())


def _spread(potentials: Potentials, possible_tags: Tensor | None) -> tuple[Tensor, Tensor]:
    # Best possible score of each token, and the largest distance to a worse one in each document.
    scores = potentials.emissions.transpose(0, 1).to(torch.float64)
    padding = padding_mask(potentials)
    closed = padding.unsqueeze(2)
    if possible_tags is not None:
        closed = closed | ~possible_tags.transpose(0, 1)
    top = scores.masked_fill(closed, float("-inf")).amax(dim=2).masked_fill_(padding, 0.0)
    low = scores.masked_fill(closed | torch.isneginf(scores), float("inf")).amin(dim=2)
    spread = (top - low).masked_fill_(padding, 0.0)
    # A token without a possible tag has top -inf and low +inf: its document is passed on as too wide.
    spread.masked_fill_(torch.isneginf(top), float("inf"))
    if not len(spread):
        return top.unsqueeze(2), spread.new_zeros(spread.shape[1])
    return top.unsqueeze(2), spread.amax(dim=0)


def messages(potentials: Potentials, possible_tags: Tensor | None, plan: Plan) -> Messages:
    """Run forward-backward in probability space.

    potentials (Potentials): The potentials.
    possible_tags (Optional[Tensor]): True where a tag is possible.
        (n_docs, n_tokens, n_tags), bool
    plan (Plan): How to scale.
    RETURNS (Messages): The messages.
    """
    factors = build_lattice(potentials, possible_tags, torch.float64, plan.shift)
    alpha, alpha_scale = _forward(factors, plan.interval)
    beta, entered, beta_scale = _backward(factors, plan.interval)
    padding = padding_mask(potentials)
    shift = torch.zeros_like(alpha_scale)
    shift[:-1] = plan.shift.expand(*padding.shape, 1).squeeze(2).masked_fill(padding, 0.0)
    alpha_offset = alpha_scale.log_().add_(shift).cumsum(dim=0)
    # beta of a step leaves out the step's own factor, and was taken before the step's own rescaling
    beta_offset = torch.zeros_like(beta_scale)
    beta_offset[:-1] = beta_scale.log_().add_(shift)[1:].flip(0).cumsum(dim=0).flip(0)
    log_z = alpha[-1, :, -1].log() + alpha_offset[-1]
    return Messages(factors, alpha, beta, entered, alpha_offset, beta_offset, log_z, plan.unsafe)


def _forward(factors: Lattice, interval: int) -> tuple[Tensor, Tensor]:
    alpha = torch.empty_like(factors.emissions)
    scale = factors.emissions.new_ones(factors.emissions.shape[:2])
    rows, inputs = alpha.unbind(0), factors.emissions.unbind(0)
    torch.mul(inputs[0], factors.start, out=rows[0])
    for step in range(1, len(rows)):
        torch.mm(rows[step - 1], factors.transitions, out=rows[step]).mul_(inputs[step])
        if step % interval == 0:
            total = rows[step].sum(dim=1, keepdim=True)
            rows[step].div_(total)
            scale[step] = total.squeeze(1)
    return alpha, scale


def _backward(factors: Lattice, interval: int) -> tuple[Tensor, Tensor, Tensor]:
    beta = torch.zeros_like(factors.emissions)
    entered = torch.empty_like(factors.emissions)
    scale = factors.emissions.new_ones(factors.emissions.shape[:2])
    moves = factors.transitions.t().contiguous()
    beta[-1, :, -1] = 1.0
    entered[-1] = beta[-1]
    rows, inputs, outputs = beta.unbind(0), factors.emissions.unbind(0), entered.unbind(0)
    last = len(rows) - 1
    for step in range(last - 1, -1, -1):
        torch.mm(outputs[step + 1], moves, out=rows[step])
        torch.mul(rows[step], inputs[step], out=outputs[step])
        if (last - step) % interval == 0:
            total = outputs[step].sum(dim=1, keepdim=True)
            outputs[step].div_(total)
            scale[step] = total.squeeze(1)
    return beta, entered, scale


def local_totals(messages: Messages, interval: int) -> tuple[Tensor, Tensor, Tensor]:
    """Combine forward and backward probabilities and complete the guard.

    messages (Messages): The messages.
    interval (int): Steps between two rescalings.
    RETURNS (tuple[Tensor, Tensor, Tensor]): alpha times beta, its sum over tags, and the unsafe documents.
        (n_tokens + 1, n_docs, n_tags + 1), (n_tokens + 1, n_docs), (n_docs,)
    """
    joint = messages.alpha * messages.beta
    total = joint.sum(dim=2)
    unsafe = messages.unsafe | ~((total >= SMALLEST_TOTAL) & (total <= LARGEST_TOTAL)).all(dim=0)
    for rows in (messages.alpha[interval::interval], messages.entered.flip(0)[interval::interval]):
        unsafe = unsafe | ((rows > 0) & (rows < FLOOR)).any(dim=2).any(dim=0)
    return joint, total, unsafe
