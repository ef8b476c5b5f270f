"""The Thinc layer around the network."""

import threading

import numpy
import pytest
import torch
from thinc.api import Adam, set_dropout_rate

from spacy_bilstm_crf.layers.bilstm_crf import BiLSTMCRFLayer, get_shim, resize_output
from spacy_bilstm_crf.types import CRFPotentials

NI, NO = 4, 3


def make_layer(*, nI=NI, seed=0, **settings):
    torch.manual_seed(seed)
    layer = BiLSTMCRFLayer(nI=nI, nO=NO, **{"hidden_width": 5, **settings})
    layer.initialize(X=make_docs([2]))
    return layer


def make_docs(lengths, seed=0):
    rng = numpy.random.default_rng(seed)
    return [rng.standard_normal((length, NI)).astype("float32") for length in lengths]


def get_arrays(potentials):
    return (
        potentials.emissions,
        potentials.transitions,
        potentials.start_transitions,
        potentials.end_transitions,
    )


def draw_gradient(potentials, seed=0):
    rng = numpy.random.default_rng(seed)
    arrays = [rng.standard_normal(array.shape).astype("float32") for array in get_arrays(potentials)]
    return CRFPotentials(arrays[0], potentials.lengths, *arrays[1:])


@pytest.mark.parametrize("lengths", [[3, 1, 4], [1], [0, 2, 0], [0, 0], []])
@pytest.mark.parametrize("is_train", [True, False])
def test_shapes_and_types(lengths, is_train):
    potentials, _ = make_layer()(make_docs(lengths), is_train)
    assert [array.shape for array in get_arrays(potentials)] == [(sum(lengths), NO), (NO, NO), (NO,), (NO,)]
    assert all(type(array) is numpy.ndarray and array.dtype == numpy.float32 for array in get_arrays(potentials))
    assert potentials.lengths.tolist() == lengths


def test_width_is_inferred():
    assert make_layer(nI=None).get_dim("nI") == NI


@pytest.mark.parametrize("lengths", [[3, 1, 4], [0, 2, 0], [0, 0]])
@pytest.mark.parametrize("settings", [{}, {"crf": False}, {"depth": 0}, {"depth": 2}])
def test_gradients_are_those_of_torch(lengths, settings):
    layer = make_layer(**settings)
    docs = make_docs(lengths)
    potentials, backprop = layer(docs, is_train=True)
    gradient = draw_gradient(potentials)
    received = backprop(gradient)
    network = get_shim(layer).network
    parameter_gradients = {name: p.grad for name, p in network.named_parameters() if p.grad is not None}
    X = torch.tensor(numpy.concatenate(docs), requires_grad=True)
    outputs = network(X, torch.tensor(lengths), is_train=True)
    network.zero_grad()
    arrays = get_arrays(gradient)
    total = sum((y * torch.tensor(dy)).sum() for y, dy in zip(outputs, arrays, strict=True) if y.requires_grad)
    total.backward()
    expected = numpy.zeros((0, NI)) if X.grad is None else X.grad.numpy()
    assert [dX.shape for dX in received] == [doc.shape for doc in docs]
    numpy.testing.assert_allclose(numpy.concatenate(received), expected, atol=1e-5)
    if sum(lengths):
        assert len(parameter_gradients) == sum(p.requires_grad for p in network.parameters())
    for name, value in parameter_gradients.items():
        torch.testing.assert_close(value, network.get_parameter(name).grad, rtol=1e-4, atol=1e-5)


def test_set_dropout_rate_reaches_torch():
    layer = make_layer()
    docs = make_docs([5, 3])
    clean = layer.predict(docs).emissions
    set_dropout_rate(layer, 0.5)
    first, second = (layer(docs, is_train=True)[0].emissions for _ in range(2))
    assert not numpy.array_equal(first, clean)
    assert not numpy.array_equal(first, second)
    set_dropout_rate(layer, 0.0)
    # With gradients torch takes another kernel, which rounds differently.
    numpy.testing.assert_allclose(layer(docs, is_train=True)[0].emissions, clean, atol=1e-6)
    set_dropout_rate(layer, 0.999)
    bias = get_shim(layer).network.output.bias.detach().numpy()
    numpy.testing.assert_allclose(layer(docs, is_train=True)[0].emissions, numpy.tile(bias, (8, 1)))


def test_prediction_after_training_is_without_noise():
    layer = make_layer(depth=2)
    docs = make_docs([5, 3])
    clean = layer.predict(docs).emissions
    set_dropout_rate(layer, 0.5)
    layer(docs, is_train=True)
    assert all(numpy.array_equal(layer.predict(docs).emissions, clean) for _ in range(3))


def test_dropout_of_two_is_refused():
    layer = make_layer()
    set_dropout_rate(layer, 2)
    with pytest.raises(ValueError, match="CRF110"):
        layer(make_docs([3]), is_train=True)


def test_potentials_do_not_change_with_later_updates():
    layer = make_layer()
    potentials, backprop = layer(make_docs([4]), is_train=True)
    before = [array.copy() for array in get_arrays(potentials)]
    backprop(draw_gradient(potentials))
    layer.finish_update(Adam(0.1))
    assert all(numpy.array_equal(a, b) for a, b in zip(before, get_arrays(potentials), strict=True))
    assert not numpy.array_equal(layer.predict(make_docs([4])).transitions, potentials.transitions)


def test_changing_potentials_does_not_change_the_network():
    layer = make_layer()
    before = layer.predict(make_docs([4]))
    for array in get_arrays(layer.predict(make_docs([4]))):
        array += 1.0
    after = layer.predict(make_docs([4]))
    assert all(numpy.array_equal(a, b) for a, b in zip(get_arrays(before), get_arrays(after), strict=True))


def test_threads_predict_while_another_trains():
    layer = make_layer(depth=2)
    docs = make_docs([5, 3, 7])
    expected = layer.predict(docs).emissions
    set_dropout_rate(layer, 0.5)
    results = []

    def predict():
        results.extend(layer.predict(docs).emissions for _ in range(20))

    threads = [threading.Thread(target=predict) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        layer(docs, is_train=True)  # the forward pass alone: weights stay
    for thread in threads:
        thread.join()
    assert len(results) == 80
    assert all(numpy.array_equal(result, expected) for result in results)


def test_resizing_reaches_the_layer_of_a_copy():
    layer = make_layer()
    layer.set_ref("output_layer", layer)
    copied = layer.copy()
    copied.set_ref("output_layer", copied)
    resize_output(copied, NO + 2)
    assert layer.predict(make_docs([2])).emissions.shape == (2, NO)
    assert copied.predict(make_docs([2])).emissions.shape == (2, NO + 2)
    assert copied.get_dim("nO") == NO + 2
