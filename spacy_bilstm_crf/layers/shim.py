"""The shims that hold the torch networks inside Thinc models."""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from thinc.api import ArgsKwargs, Optimizer, PyTorchShim, Shim, get_torch_default_device
from thinc.types import FloatsXd
from thinc.util import torch2xp, xp2torch
from torch import nn

from ..errors import Errors
from ..network import BiLSTMCRF

_HEADER_KEY = "spacy_bilstm_crf"


class NetworkShim(PyTorchShim):
    """Hold a network inside a Thinc model.

    It differs from Thinc's own shim in four ways: the network is made when its sizes are known, from settings or from a
    file; weights are stored as safetensors, so loading a model runs no code from it; averaged weights reach the
    network; and prediction leaves no trace on the module, so several threads may predict at once.

    network_type (type): The network's class. It is called with the sizes nI and nO, and has attributes of these names.
    settings (dict): Keyword arguments of the class, all but the sizes.
    lr_scale (float): Factor on the optimizer's learning rate for the network's weights.
    """

    def __init__(self, network_type: type[nn.Module], settings: dict[str, Any], *, lr_scale: float = 1.0) -> None:
        super().__init__(None)
        self.network_type = network_type
        self.settings = dict(settings)
        self.lr_scale = lr_scale

    @property
    def network(self) -> Any:
        """The torch module.

        RAISES (ValueError): CRF201 if the model has not been initialized or loaded.
        """
        if self._model is None:
            raise ValueError(Errors.CRF201)
        return self._model

    @property
    def is_initialized(self) -> bool:
        """Whether the network has been made."""
        return self._model is not None

    def build(self, nI: int, nO: int) -> nn.Module:
        """Make the network, with fresh weights, on the device of the active Thinc ops.

        nI (int): Width of its input.
        nO (int): Width of its output.
        RETURNS (Module): The network.
        """
        self._model = self.network_type(nI, nO, **self.settings).to(get_torch_default_device())
        return self._model

    def predict(self, inputs: ArgsKwargs) -> Any:
        """Run the network without gradients.

        inputs (ArgsKwargs): Arguments of its `forward`.
        RETURNS (tuple): Its result.
        """
        with torch.no_grad():
            return self.network(*inputs.args, **inputs.kwargs)

    def begin_update(self, inputs: ArgsKwargs) -> tuple[Any, Callable[[ArgsKwargs], ArgsKwargs]]:
        """Run the network for training.

        inputs (ArgsKwargs): Arguments of its `forward`; the first is the input that gradients are wanted for.
        RETURNS (tuple): Its result, and a callback that takes the gradient of the result, as arguments of
            `torch.autograd.backward`, and gives the gradient of the input.
        """
        outputs = self.network(*inputs.args, **inputs.kwargs)

        def backprop(grads: ArgsKwargs) -> ArgsKwargs:
            torch.autograd.backward(*grads.args, **grads.kwargs)
            X = inputs.args[0]
            dX = X.grad if X.grad is not None else torch.zeros_like(X)
            return ArgsKwargs(args=(dX,), kwargs={})

        return outputs, backprop

    def finish_update(self, optimizer: Optimizer) -> None:
        """Apply the gradients to the weights and clear them.

        optimizer (Optimizer): A Thinc optimizer. Its averages are kept under `(shim.id, name)`.
        """
        for name, parameter in self.network.named_parameters():
            if parameter.grad is None:
                continue
            weights, gradient = (cast(FloatsXd, torch2xp(tensor)) for tensor in (parameter.data, parameter.grad))
            # What `nlp.rehearse` passes as an optimizer takes no scale.
            scale = {"lr_scale": self.lr_scale} if isinstance(optimizer, Optimizer) else {}
            updated, _ = optimizer((self.id, name), weights, gradient, **scale)
            if updated is not weights:
                # In place: cuDNN keeps the LSTM's weights in one block, and an alias must not go stale.
                parameter.data.copy_(xp2torch(updated, device=parameter.device))
            parameter.grad = None

    @contextlib.contextmanager
    def use_params(self, params: dict[tuple[int, str], Any]) -> Iterator[None]:
        """Exchange the weights, for instance for their averages, until the context ends.

        params (dict): Arrays by `(shim.id, name)`, as `Optimizer.averages` has them.
        """
        if self._model is None:
            yield
            return
        parameters = dict(self._model.named_parameters())
        given = {name: params[self.id, name] for name in parameters if (self.id, name) in params}
        originals = {name: parameters[name].data.clone() for name in given}
        try:
            for name, array in given.items():
                parameters[name].data.copy_(xp2torch(array, device=parameters[name].device))
            yield
        finally:
            for name, tensor in originals.items():
                parameters[name].data.copy_(tensor)

    @property
    def device(self) -> torch.device:
        """The device of the weights, or the default one while there are none."""
        return super().device if self._model is not None else get_torch_default_device()

    def to_device(self, device_type: str, device_id: int) -> None:
        """Move the network.

        device_type (str): "cpu" or "gpu".
        device_id (int): Number of the GPU.
        """
        if self._model is not None:
            super().to_device(device_type, device_id)

    def to_bytes(self) -> bytes:
        """Store the weights as safetensors, with the network's settings in the header.

        RETURNS (bytes): The file's content; empty if there is no network yet.
        """
        if self._model is None:
            return b""
        header = {**self.settings, "nI": self._model.nI, "nO": self._model.nO}
        tensors = {name: tensor.contiguous().cpu() for name, tensor in self._model.state_dict().items()}
        return save_tensors(tensors, {_HEADER_KEY: json.dumps(header)})

    def from_bytes(self, bytes_data: bytes) -> "NetworkShim":
        """Make the network from a stored one. If that fails, the present one stays.

        bytes_data (bytes): What `to_bytes` gave.
        RETURNS (NetworkShim): This object.
        RAISES (ValueError): CRF202 if the data is damaged, CRF203 if it belongs to other settings.
        """
        if not bytes_data:
            self._model = None
            return self
        try:
            tensors = load_tensors(bytes_data)
            header = _read_header(bytes_data)
            nI, nO = int(header.pop("nI")), int(header.pop("nO"))
        except (SafetensorError, KeyError, ValueError, TypeError, AttributeError) as error:
            raise ValueError(Errors.CRF202.format(network=self.network_type.__name__, error=error)) from error
        self._check_settings(header)
        network = self.network_type(nI, nO, **self.settings)
        try:
            network.load_state_dict(tensors)
        except RuntimeError as error:
            raise ValueError(Errors.CRF202.format(network=self.network_type.__name__, error=error)) from error
        self._model = network.to(get_torch_default_device())
        return self

    def _check_settings(self, stored: dict[str, Any]) -> None:
        # Precision is a way to compute, not a property of the weights.
        differing = [
            f"{key}: {stored.get(key)!r} in the file, {value!r} in the config"
            for key, value in self.settings.items()
            if key != "mixed_precision" and stored.get(key) != value
        ]
        if differing:
            raise ValueError(Errors.CRF203.format(network=self.network_type.__name__, differing="; ".join(differing)))


class BiLSTMCRFShim(NetworkShim):
    """Hold a `BiLSTMCRF` network.

    settings (dict): Keyword arguments of `BiLSTMCRF`, all but the sizes.
    lr_scale (float): Factor on the optimizer's learning rate for the network's weights.
    """

    def __init__(self, settings: dict[str, Any], *, lr_scale: float = 1.0) -> None:
        super().__init__(BiLSTMCRF, settings, lr_scale=lr_scale)

    def resize_output(self, nO: int, like: Sequence[Sequence[int]] = ()) -> None:
        """Make room for further tags.

        An optimizer then starts anew with the weights: it knows them by the shim's id, and its moments and averages of
        the old shapes do not fit.

        nO (int): The new number of tags.
        like (Sequence[Sequence[int]]): For each new tag, those it is modelled on.
        """
        if self._model is not None:
            self._model.resize_output(nO, like)
            with Shim.global_id_lock:
                Shim.global_id += 1
                self.id = Shim.global_id


def _read_header(data: bytes) -> dict[str, Any]:
    # Layout of safetensors: 8 bytes with the length of a JSON header, then the header.
    length = int.from_bytes(data[:8], "little")
    return json.loads(json.loads(data[8 : 8 + length])["__metadata__"][_HEADER_KEY])
