"""The torch network: scores of a document are its own."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from spacy_bilstm_crf.network import BiLSTMCRF

NI, NO, WIDTH = 5, 4, 6
LENGTHS = st.lists(st.integers(0, 9), min_size=1, max_size=8)


def make_network(*, depth=1, seed=0, **settings):
    torch.manual_seed(seed)
    return BiLSTMCRF(NI, NO, hidden_width=WIDTH, depth=depth, **settings)


def make_batch(lengths, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(sum(lengths), NI, generator=generator), torch.tensor(lengths, dtype=torch.int64)


def emit(network, X, lengths, **kwargs):
    return network(X, lengths, **kwargs)[0]


def emit_like_torch(network, X):
    """Score one document with torch's own bidirectional LSTM, the layers' weights copied into it."""
    for forward_lstm, backward_lstm in zip(network.forward_layers, network.backward_layers, strict=True):
        lstm = nn.LSTM(X.shape[1], network.hidden_width, bidirectional=True)
        state = dict(forward_lstm.state_dict())
        state.update({f"{name}_reverse": value for name, value in backward_lstm.state_dict().items()})
        lstm.load_state_dict(state)
        X = lstm(X)[0]
    return network.output(X)


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("n_tokens", [1, 2, 7])
def test_emissions_are_those_of_torch_bilstm(depth, n_tokens):
    network = make_network(depth=depth)
    X, lengths = make_batch([n_tokens])
    torch.testing.assert_close(emit(network, X, lengths), emit_like_torch(network, X))


@settings(max_examples=40, deadline=None)
@given(LENGTHS, st.sampled_from([0, 1, 2]))
def test_a_document_does_not_depend_on_its_batch(lengths, depth):
    network = make_network(depth=depth)
    X, sizes = make_batch(lengths)
    together = emit(network, X, sizes).split(lengths)
    for doc, scores, size in zip(X.split(lengths), together, lengths, strict=True):
        alone = emit(network, doc, torch.tensor([size]))
        torch.testing.assert_close(scores, alone, rtol=0.0, atol=1e-6)


@settings(max_examples=20, deadline=None)
@given(LENGTHS, st.randoms(use_true_random=False))
def test_order_moves_scores_by_rounding_at_most(lengths, random):
    network = make_network()
    X, sizes = make_batch(lengths)
    order = list(range(len(lengths)))
    random.shuffle(order)
    docs = X.split(lengths)
    shuffled = emit(network, torch.cat([docs[i] for i in order]), sizes[order]).split([lengths[i] for i in order])
    straight = emit(network, X, sizes).split(lengths)
    for position, doc in enumerate(order):
        torch.testing.assert_close(shuffled[position], straight[doc], rtol=0.0, atol=1e-6)


def test_gradients_of_a_batch_add_up_those_of_its_documents():
    lengths = [3, 1, 6, 6, 2]
    network = make_network(depth=2)
    X, sizes = make_batch(lengths)
    weights = torch.randn(len(X), NO)
    (emit(network, X, sizes) * weights).sum().backward()
    together = {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}
    network.zero_grad()
    for doc, weight, size in zip(X.split(lengths), weights.split(lengths), lengths, strict=True):
        (emit(network, doc, torch.tensor([size])) * weight).sum().backward()
    assert together
    for name, gradient in together.items():
        torch.testing.assert_close(network.get_parameter(name).grad, gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("lengths", [[], [0], [0, 0]])
def test_a_batch_without_tokens_has_no_scores_and_zero_gradients(depth, lengths):
    network = make_network(depth=depth)
    X, sizes = make_batch(lengths)
    emissions = emit(network, X, sizes, dropout=0.5, is_train=True)
    assert emissions.shape == (0, NO)
    emissions.sum().backward()
    assert not network.output.weight.grad.any()


def test_dropout_is_noise_in_training_alone():
    network = make_network(depth=2)
    X, lengths = make_batch([4, 3])
    clean = emit(network, X, lengths)
    assert torch.equal(emit(network, X, lengths, dropout=0.5), clean)
    assert torch.equal(emit(network, X, lengths, dropout=0.0, is_train=True), clean)
    first, second = (emit(network, X, lengths, dropout=0.5, is_train=True) for _ in range(2))
    assert not torch.equal(first, clean)
    assert not torch.equal(first, second)
    assert torch.equal(emit(network, X, lengths), clean)


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_dropout_reaches_input_layers_and_output(depth):
    network = make_network(depth=depth)
    X, lengths = make_batch([200])
    hidden = []
    network.output.register_forward_pre_hook(lambda module, args: hidden.append(args[0]))
    emit(network, X, lengths, dropout=0.4, is_train=True)
    share = float((hidden[0] == 0).float().mean())
    assert share == pytest.approx(0.4, abs=0.08)


def test_prediction_does_not_look_at_dropout():
    network = make_network()
    X, lengths = make_batch([4, 3])
    assert torch.equal(emit(network, X, lengths, dropout=2), emit(network, X, lengths))


def test_train_and_eval_mode_make_no_difference():
    network = make_network(depth=2)
    X, lengths = make_batch([4, 3])
    results = [emit(network.train(mode), X, lengths, dropout=0.5) for mode in (True, False)]
    assert torch.equal(*results)


def test_neither_training_nor_prediction_touches_the_module():
    network = make_network(depth=2)
    X, lengths = make_batch([4, 3])
    before = {name: value.clone() for name, value in network.state_dict().items()}
    modes = [module.training for module in network.modules()]
    emit(network, X, lengths, dropout=0.5, is_train=True)
    emit(network, X, lengths)
    assert [module.training for module in network.modules()] == modes
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())


@pytest.mark.parametrize("dropout", [2, 1.0, -0.1, float("nan")])
def test_dropout_out_of_range_is_refused(dropout):
    X, lengths = make_batch([2])
    with pytest.raises(ValueError, match=r"CRF110.*check \[training\] dropout"):
        emit(make_network(), X, lengths, dropout=dropout, is_train=True)


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_mixed_precision_is_close_on_a_cpu(depth):
    wide, narrow = make_network(depth=depth), make_network(depth=depth, mixed_precision=True)
    X, lengths = make_batch([12, 30, 1])
    expected, received = emit(wide, X, lengths), emit(narrow, X, lengths)
    assert received.dtype == torch.float32
    assert not torch.equal(received, expected), "nothing was computed in bfloat16"
    torch.testing.assert_close(received, expected, rtol=0.05, atol=0.05)


def test_mixed_precision_keeps_weights_gradients_and_moves_wide():
    network = make_network(mixed_precision=True)
    X, lengths = make_batch([3, 2])
    emissions, *moves = network(X, lengths, is_train=True)
    assert all(scores.dtype == torch.float32 for scores in moves)
    (emissions.sum() + sum(scores.sum() for scores in moves)).backward()
    assert all(p.dtype == p.grad.dtype == torch.float32 for p in network.parameters())


def test_without_crf_moves_score_nothing_and_do_not_learn():
    network = make_network(crf=False)
    X, lengths = make_batch([3])
    _, *moves = network(X, lengths, is_train=True)
    assert not any(scores.any() or scores.requires_grad for scores in moves)


@pytest.mark.parametrize("crf", [True, False])
def test_resizing_keeps_every_learnt_score(crf):
    network = make_network(crf=crf)
    for parameter in network.parameters():
        nn.init.normal_(parameter.data)
    X, lengths = make_batch([3, 2])
    before = network(X, lengths)
    network.resize_output(NO + 3)
    after = network(X, lengths)
    assert network.nO == NO + 3
    for old, new in zip(before, after, strict=True):
        corner = tuple(slice(size) for size in old.shape)
        torch.testing.assert_close(new[corner], old, rtol=0.0, atol=1e-6)
        assert new.shape[-1] == NO + 3
        assert torch.isfinite(new).all()
    assert network.transitions.requires_grad is crf
