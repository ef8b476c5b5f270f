"""The Thinc layer around the network: word vectors to potentials."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy
import torch
from thinc.api import ArgsKwargs, Model
from thinc.types import Floats2d, FloatsXd, Ints1d
from thinc.util import torch2xp, xp2torch

from ..threads import use_one_thread_after_fork
from ..types import CRFModel, CRFPotentials
from .shim import BiLSTMCRFShim

LayerT = Model[list[Floats2d], CRFPotentials]


def BiLSTMCRFLayer(
    *,
    nI: int | None = None,
    nO: int | None = None,
    hidden_width: int = 100,
    depth: int = 1,
    crf: bool = True,
    mixed_precision: bool = False,
    lr_scale: float = 1.0,
) -> LayerT:
    """Score tags and moves between tags with a BiLSTM-CRF network.

    nI (int | None): Width of the word vectors, inferred at initialization if None.
    nO (int | None): Number of tags, set by the pipe.
    hidden_width (int): Width of the LSTM's state in each direction.
    depth (int): Number of BiLSTM layers.
    crf (bool): Learn transition scores.
    mixed_precision (bool): Compute in bfloat16 where autocast allows it.
    lr_scale (float): Factor on the learning rate for this layer's weights.
    RETURNS (Model): From one (n_tokens, nI) array for each document to the potentials of the batch.
    """
    settings = {"hidden_width": hidden_width, "depth": depth, "crf": crf, "mixed_precision": mixed_precision}
    return Model(
        "bilstm_crf",
        forward,
        init=init,
        dims={"nI": nI, "nO": nO},
        attrs={"dropout_rate": 0.0},
        shims=[BiLSTMCRFShim(settings, lr_scale=lr_scale)],
    )


def forward(
    model: LayerT, Xs: list[Floats2d], is_train: bool
) -> tuple[CRFPotentials, Callable[[CRFPotentials], list[Floats2d]]]:
    """Run the network over the whole batch at once."""
    use_one_thread_after_fork()
    shim = get_shim(model)
    lengths = [len(X) for X in Xs]
    X = model.ops.flatten(Xs) if sum(lengths) else model.ops.alloc2f(0, shim.network.nI)
    inputs = ArgsKwargs(
        args=(xp2torch(X, requires_grad=is_train, device=shim.device), torch.tensor(lengths, dtype=torch.int64)),
        kwargs={"dropout": model.attrs["dropout_rate"], "is_train": is_train},
    )
    outputs, torch_backprop = shim(inputs, is_train)
    emissions, *moves = outputs
    # Transition scores are live parameters: a copy keeps later updates out of these potentials.
    copies = [tensor.detach().clone() for tensor in moves]
    potentials = CRFPotentials.from_tensors(emissions.detach(), numpy.asarray(lengths, dtype="int64"), *copies)

    def backprop(d_potentials: CRFPotentials) -> list[Floats2d]:
        pairs = [
            (output, xp2torch(cast(FloatsXd, grad), device=output.device))
            for output, grad in zip(outputs, d_potentials.arrays, strict=True)
            if output.requires_grad
        ]
        tensors, grad_tensors = zip(*pairs, strict=True)
        d_inputs = torch_backprop(ArgsKwargs(args=(tensors,), kwargs={"grad_tensors": grad_tensors}))
        dX = cast(Floats2d, torch2xp(d_inputs.args[0]))
        return model.ops.unflatten(dX, cast(Ints1d, lengths))

    return potentials, backprop


def init(model: LayerT, X: list[Floats2d] | None = None, Y: Any = None) -> None:
    """Make the network once its sizes are known."""
    if model.has_dim("nI") is None and X:
        model.set_dim("nI", X[0].shape[1])
    get_shim(model).build(model.get_dim("nI"), model.get_dim("nO"))


def resize_output(model: CRFModel, nO: int, like: Sequence[Sequence[int]] = ()) -> CRFModel:
    """Make room for further tags, keeping what was learnt.

    model (Model): A model with this layer as its "output_layer".
    nO (int): The new number of tags.
    like (Sequence[Sequence[int]]): For each new tag, those it is modelled on: one for each known label.
    RETURNS (Model): The same model.
    """
    layer = model.get_ref("output_layer")
    get_shim(layer).resize_output(nO, like)
    for node in (layer, model):
        node.set_dim("nO", nO, force=True)
    return model


def get_shim(model: LayerT) -> BiLSTMCRFShim:
    """Return the shim that holds the layer's network."""
    return cast(BiLSTMCRFShim, model.shims[0])
