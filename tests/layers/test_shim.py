"""The shim: weights in files, averages, in-place updates."""

import copy
import json
import pickle

import numpy
import pytest
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from thinc.api import SGD, Adam, ArgsKwargs

from spacy_bilstm_crf.layers.shim import BiLSTMCRFShim

NI, NO = 4, 3
SETTINGS = {"hidden_width": 5, "depth": 1, "crf": True, "mixed_precision": False}


def make_shim(*, seed=0, lr_scale=1.0, **settings):
    torch.manual_seed(seed)
    shim = BiLSTMCRFShim({**SETTINGS, **settings}, lr_scale=lr_scale)
    shim.build(NI, NO)
    return shim


def make_inputs(n_tokens=6, **kwargs):
    X = torch.randn(n_tokens, NI, generator=torch.Generator().manual_seed(1), requires_grad=True)
    return ArgsKwargs(args=(X, torch.tensor([n_tokens])), kwargs={"dropout": 0.0, "is_train": True, **kwargs})


def take_step(shim, optimizer):
    outputs, backprop = shim.begin_update(make_inputs())
    backprop(ArgsKwargs(args=(outputs,), kwargs={"grad_tensors": tuple(torch.ones_like(y) for y in outputs)}))
    shim.finish_update(optimizer)


def copy_weights(shim):
    return {name: parameter.detach().numpy().copy() for name, parameter in shim.network.named_parameters()}


def assert_same(left, right):
    assert left.keys() == right.keys()
    assert all(numpy.array_equal(left[name], right[name]) for name in left)


def test_averages_are_those_of_the_torch_weights():
    shim = make_shim()
    optimizer = Adam(0.1, use_averages=True)
    averages = {name: numpy.zeros_like(array) for name, array in copy_weights(shim).items()}
    for step in range(1, 6):
        take_step(shim, optimizer)
        decay = min((1.0 + step) / (10.0 + step), 0.9999)
        for name, weights in copy_weights(shim).items():
            averages[name] = decay * averages[name] + (1 - decay) * weights
    current = copy_weights(shim)
    with shim.use_params(optimizer.averages):
        for name, weights in copy_weights(shim).items():
            numpy.testing.assert_allclose(weights, averages[name], rtol=1e-5, atol=1e-6, err_msg=name)
            assert not numpy.array_equal(weights, current[name]), name
    assert_same(copy_weights(shim), current)


def test_weights_come_back_after_an_error():
    shim = make_shim()
    optimizer = Adam(0.1, use_averages=True)
    take_step(shim, optimizer)
    before = copy_weights(shim)
    with pytest.raises(KeyError), shim.use_params(optimizer.averages):
        raise KeyError
    assert_same(copy_weights(shim), before)


def test_params_of_others_are_not_taken():
    shim, other = make_shim(), make_shim(seed=1)
    optimizer = Adam(0.1, use_averages=True)
    take_step(other, optimizer)
    before = copy_weights(shim)
    with shim.use_params(optimizer.averages):
        assert_same(copy_weights(shim), before)


def test_updates_are_in_place():
    shim = make_shim()
    places = [parameter.data_ptr() for parameter in shim.network.parameters()]
    before = copy_weights(shim)
    take_step(shim, Adam(0.1))
    assert [parameter.data_ptr() for parameter in shim.network.parameters()] == places
    after = copy_weights(shim)
    assert all(not numpy.array_equal(before[name], after[name]) for name in before)
    assert all(parameter.grad is None for parameter in shim.network.parameters())


def test_gradients_add_up_until_they_are_applied():
    once, twice = make_shim(), make_shim()
    for shim, n_passes in ((once, 1), (twice, 2)):
        for _ in range(n_passes):
            outputs, backprop = shim.begin_update(make_inputs())
            backprop(ArgsKwargs(args=(outputs,), kwargs={"grad_tensors": tuple(torch.ones_like(y) for y in outputs)}))
    for one, two in zip(once.network.parameters(), twice.network.parameters(), strict=True):
        torch.testing.assert_close(2 * one.grad, two.grad)


def test_without_crf_transitions_stay_as_they_are():
    shim = make_shim(crf=False)
    outputs, backprop = shim.begin_update(make_inputs())
    backprop(ArgsKwargs(args=(outputs[:1],), kwargs={"grad_tensors": (torch.ones_like(outputs[0]),)}))
    shim.finish_update(Adam(0.1))
    assert not shim.network.transitions.any()


def test_lr_scale_scales_the_step():
    full, half = make_shim(), make_shim(lr_scale=0.5)
    before = copy_weights(full)
    for shim in (full, half):
        take_step(shim, SGD(0.01, L2=0.0, grad_clip=0.0, use_averages=False))
    for name, start in before.items():
        numpy.testing.assert_allclose(
            2 * (copy_weights(half)[name] - start), copy_weights(full)[name] - start, rtol=1e-3, atol=1e-6
        )


def test_bytes_are_safetensors_and_hold_no_pickle():
    shim = make_shim()
    data = shim.to_bytes()
    tensors = load_tensors(data)
    assert tensors.keys() == shim.network.state_dict().keys()
    # A pickle begins with its protocol and ends with a full stop; torch's own files are zip archives.
    assert not data.startswith((b"\x80", b"PK"))
    assert int.from_bytes(data[:8], "little") < len(data)
    with pytest.raises((pickle.UnpicklingError, ValueError, EOFError, KeyError, IndexError, AttributeError)):
        pickle.loads(data)


@pytest.mark.parametrize("load", ["bytes", "disk", "deepcopy", "pickle", "copy"])
def test_round_trips_keep_weights_to_the_last_bit(load, tmp_path):
    shim = make_shim()
    if load == "bytes":
        loaded = BiLSTMCRFShim(SETTINGS).from_bytes(shim.to_bytes())
    elif load == "disk":
        shim.to_disk(tmp_path / "shim")
        loaded = BiLSTMCRFShim(SETTINGS).from_disk(tmp_path / "shim")
    elif load == "deepcopy":
        loaded = copy.deepcopy(shim)
    elif load == "pickle":
        loaded = pickle.loads(pickle.dumps(shim))
    else:
        loaded = shim.copy()
    assert_same(copy_weights(loaded), copy_weights(shim))
    take_step(loaded, Adam(0.1))
    assert not numpy.array_equal(copy_weights(loaded)["output.weight"], copy_weights(shim)["output.weight"])


def test_a_shim_without_network_stores_none():
    shim = BiLSTMCRFShim(SETTINGS)
    assert shim.to_bytes() == b""
    assert not make_shim().from_bytes(b"").is_initialized
    with pytest.raises(ValueError, match=r"CRF201.*nlp\.initialize"):
        shim.predict(make_inputs())


def rewrite(data, change_tensors=lambda tensors: None, change_header=lambda header: None):
    """Write the file anew, changed."""
    length = int.from_bytes(data[:8], "little")
    metadata = json.loads(data[8 : 8 + length])["__metadata__"]
    header = json.loads(metadata["spacy_bilstm_crf"])
    tensors = load_tensors(data)
    change_tensors(tensors)
    change_header(header)
    return save_tensors(tensors, {"spacy_bilstm_crf": json.dumps(header)})


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors: tensors.pop("output.bias"),
        lambda tensors: tensors.update({"more": torch.zeros(1)}),
        lambda tensors: tensors.update({"output.weight": torch.zeros(NO + 1, 10)}),
        lambda tensors: tensors.update({"transitions": torch.zeros(NO)}),
    ],
)
def test_weights_of_another_size_are_refused(change):
    data = rewrite(make_shim().to_bytes(), change)
    shim = make_shim(seed=3)
    before = copy_weights(shim)
    with pytest.raises(ValueError, match=r"(?s)CRF202.*get the model again"):
        shim.from_bytes(data)
    assert_same(copy_weights(shim), before)


@pytest.mark.parametrize("change", [lambda header: header.pop("nI"), lambda header: header.update(nO=NO + 1)])
def test_sizes_that_are_missing_or_wrong_are_refused(change):
    with pytest.raises(ValueError, match="CRF202"):
        make_shim().from_bytes(rewrite(make_shim().to_bytes(), change_header=change))


@pytest.mark.parametrize(("name", "value"), [("hidden_width", 6), ("depth", 2), ("crf", False)])
def test_weights_of_other_settings_are_refused(name, value):
    with pytest.raises(ValueError, match=rf"CRF203.*{name}: {SETTINGS[name]} in the file, {value} in the config"):
        make_shim(**{name: value}).from_bytes(make_shim().to_bytes())


def test_precision_may_change_between_saving_and_loading():
    shim = make_shim(mixed_precision=True).from_bytes(make_shim().to_bytes())
    assert shim.network.mixed_precision


def test_cut_off_weights_are_refused_wherever_they_end():
    data = make_shim().to_bytes()
    shim = make_shim(seed=3)
    before = copy_weights(shim)
    for n_bytes in range(1, len(data), 7):
        with pytest.raises(ValueError, match="CRF202"):
            shim.from_bytes(data[:n_bytes])
    assert_same(copy_weights(shim), before)


@pytest.mark.parametrize("data", [b"\x80\x04N.", b"PK\x03\x04", b"\xff" * 64, save_tensors({"a": torch.zeros(1)})])
def test_other_files_are_refused(data):
    with pytest.raises(ValueError, match="CRF202"):
        make_shim().from_bytes(data)


def test_resizing_makes_optimizers_start_anew():
    shim = make_shim()
    optimizer = Adam(0.1, use_averages=True)
    take_step(shim, optimizer)
    shim.resize_output(NO + 2)
    take_step(shim, optimizer)
    with shim.use_params(optimizer.averages):
        assert shim.network.output.weight.shape == (NO + 2, 10)
