"""What goes into the CRF and comes out of it, and its checks."""

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor

from ..errors import Errors

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class Potentials(NamedTuple):
    """Scores of a batch of documents under a linear-chain CRF, in nats.

    What cannot be is -inf or left out of `possible_tags`. A large negative number in its place is exact too, but takes
    the batch off the fast route.

    emissions (Tensor): Score of each tag at each token. Time-major tensors come in as a transposed view for free.
        (n_docs, n_tokens, n_tags), float; the padding may hold anything, even NaN
    lengths (Tensor): Number of tokens of each document.
        (n_docs,), int64; 0 is allowed
    transitions (Tensor): Score of moving from one tag to the next; -inf forbids the move.
        (n_tags, n_tags), float, [from, to]
    start_transitions (Tensor): Score of beginning with a tag; -inf forbids it.
        (n_tags,), float
    end_transitions (Tensor): Score of ending with a tag; -inf forbids it.
        (n_tags,), float
    """

    emissions: Tensor
    lengths: Tensor
    transitions: Tensor
    start_transitions: Tensor
    end_transitions: Tensor


class Gradient(NamedTuple):
    """Gradient of a loss with respect to the potentials, each part in the dtype of its potential.

    emissions (Tensor): 0 in the padding.
        (n_docs, n_tokens, n_tags), float
    transitions (Tensor): Summed over documents, as are the two below; 0 for forbidden moves.
        (n_tags, n_tags), float
    start_transitions (Tensor):
        (n_tags,), float
    end_transitions (Tensor):
        (n_tags,), float
    """

    emissions: Tensor
    transitions: Tensor
    start_transitions: Tensor
    end_transitions: Tensor


def constrain(transitions: Tensor, allowed: Tensor) -> Tensor:
    """Forbid moves by giving them a score of -inf. Gradients pass through the others.

    transitions (Tensor): Transition, start or end scores of any shape, float.
    allowed (Tensor): True where the move is allowed, of the same shape, bool.
    RETURNS (Tensor): The constrained scores.
    """
    return transitions.masked_fill(~allowed, float("-inf"))


def exact(function: FunctionT) -> FunctionT:
    """Run a function without autograd and outside autocast, which would round the CRF's float32 to bfloat16."""

    @wraps(function)
    def wrapper(potentials: Potentials, *args: Any, **kwargs: Any) -> Any:
        device_type = potentials.emissions.device.type
        with torch.no_grad():
            if torch.is_autocast_enabled(device_type):
                with torch.autocast(device_type, enabled=False):
                    return function(potentials, *args, **kwargs)
            return function(potentials, *args, **kwargs)

    return cast(FunctionT, wrapper)


def has_float64(device: torch.device) -> bool:
    """Say whether a device computes in float64. Apple's GPUs do not.

    device (torch.device): The device.
    RETURNS (bool): Whether float64 tensors can live there.
    """
    return device.type != "mps"


def wide_dtype(device: torch.device) -> torch.dtype:
    """Name the widest float type of a device.

    device (torch.device): The device.
    RETURNS (torch.dtype): float64 where there is one, else float32.
    """
    return torch.float64 if has_float64(device) else torch.float32


def at_least_float32(potentials: Potentials) -> torch.dtype:
    """Name the type in which scores of tokens are worked on: autocast may hand over emissions in bfloat16.

    potentials (Potentials): The potentials.
    RETURNS (torch.dtype): The type of the emissions, float32 if that is narrower.
    """
    return torch.promote_types(potentials.emissions.dtype, torch.float32)


def check_shapes(potentials: Potentials, *per_token: Tensor | None) -> None:
    """Compare the shapes of all parts of a call.

    potentials (Potentials): The potentials.
    *per_token (Tensor | None): Tags (n_docs, n_tokens) or masks (n_docs, n_tokens, n_tags) that came with them.
    RAISES (ValueError): CRF103 if something does not fit.
    """
    n_docs, n_tokens, n_tags = potentials.emissions.shape
    expected: dict[str, tuple[int, ...]] = {
        "lengths": (n_docs,),
        "transitions": (n_tags, n_tags),
        "start_transitions": (n_tags,),
        "end_transitions": (n_tags,),
    }
    for name, shape in expected.items():
        received = tuple(getattr(potentials, name).shape)
        if received != shape:
            raise ValueError(Errors.CRF103.format(name=name, received=received, expected=shape))
    for tensor in per_token:
        if tensor is not None and tuple(tensor.shape) != (n_docs, n_tokens, n_tags)[: max(2, tensor.dim())]:
            name, full = "tags or mask", (n_docs, n_tokens, n_tags)
            raise ValueError(Errors.CRF103.format(name=name, received=tuple(tensor.shape), expected=full))


def check_log_partition(log_z: Tensor, doc_index: Tensor | None = None) -> None:
    """Refuse sums and maxima over all paths that are not finite.

    log_z (Tensor): log Z or best score of each document.
        (n_docs,), float
    doc_index (Tensor | None): Index of each of them in the caller's batch, None if they are the batch.
        (n_docs,), int64
    RAISES (ValueError): CRF101 where there is no path, CRF102 where scores are NaN or +inf.
    """
    if torch.isfinite(log_z).all():
        return
    row = int((~torch.isfinite(log_z)).nonzero()[0])
    doc = row if doc_index is None else int(doc_index[row])
    if log_z[row] == float("-inf"):
        raise ValueError(Errors.CRF101.format(doc=doc))
    raise ValueError(Errors.CRF102.format(doc=doc))
