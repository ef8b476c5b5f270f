"""Vectors of words from a BiLSTM over their characters."""

from collections.abc import Callable
from typing import Any, cast

import torch
from thinc.api import ArgsKwargs, HashEmbed, Model, chain, with_array
from thinc.types import Floats2d, Ragged
from thinc.util import torch2xp, xp2torch

from ..char_network import LastStateBiLSTM
from ..threads import use_one_thread_after_fork
from ..types import EmbedModel
from .characters import embed_by_word
from .shim import NetworkShim

LayerT = Model[Ragged, Floats2d]


def CharBiLSTM(*, hidden_width: int = 25, char_width: int = 25, rows: int = 500, max_length: int = 40) -> EmbedModel:
    """Embed words with a BiLSTM over their characters: the last states of its two directions beside each other.

    hidden_width (int): Width of the LSTM's state in each direction, half the width of a word's vector.
    char_width (int): Width of a character's vector.
    rows (int): Rows of the hashed table of character vectors.
    max_length (int): A longer word is cut in its middle.
    RETURNS (Model): From documents to one (n_tokens, 2 * hidden_width) array for each.
    REFERENCE: Lample et al. 2016
    """
    encode: Model[Ragged, Floats2d] = chain(
        with_array(HashEmbed(char_width, rows, seed=12, dropout=0.0)), LastStates(char_width, 2 * hidden_width)
    )
    return embed_by_word("char_bilstm", encode, 2 * hidden_width, max_length)


def LastStates(nI: int, nO: int) -> LayerT:
    """Encode sequences by the last states of a BiLSTM's two directions.

    nI (int): Width of the vectors of the sequences.
    nO (int): Width of the result, twice that of the LSTM's state.
    RETURNS (Model): From sequences to one vector for each.
    """
    return Model("last_states", forward, init=init, dims={"nI": nI, "nO": nO}, shims=[NetworkShim(LastStateBiLSTM, {})])


def forward(model: LayerT, X: Ragged, is_train: bool) -> tuple[Floats2d, Callable[[Floats2d], Ragged]]:
    """Run the network over all sequences."""
    use_one_thread_after_fork()
    shim = cast(NetworkShim, model.shims[0])
    lengths = torch.from_numpy(model.ops.to_numpy(X.lengths).astype("int64"))
    data = xp2torch(cast(Floats2d, X.data), requires_grad=is_train, device=shim.device)
    output, torch_backprop = shim(ArgsKwargs(args=(data, lengths), kwargs={}), is_train)

    def backprop(d_output: Floats2d) -> Ragged:
        grad = xp2torch(d_output, device=output.device)
        d_inputs = torch_backprop(ArgsKwargs(args=((output,),), kwargs={"grad_tensors": (grad,)}))
        return Ragged(cast(Floats2d, torch2xp(d_inputs.args[0])), X.lengths)

    return cast(Floats2d, torch2xp(output.detach())), backprop


def init(model: LayerT, X: Any = None, Y: Any = None) -> None:
    """Make the network."""
    cast(NetworkShim, model.shims[0]).build(model.get_dim("nI"), model.get_dim("nO"))
