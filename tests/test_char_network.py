"""The network that reads the characters of words, against one that reads each alone."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spacy_bilstm_crf.batching import make_buckets
from spacy_bilstm_crf.char_network import LastStateBiLSTM

NI, NO = 3, 8


def make_network(dtype=torch.float64):
    torch.manual_seed(0)
    return LastStateBiLSTM(NI, NO).to(dtype)


NETWORK = make_network()


def make_input(lengths, dtype=torch.float64):
    X = torch.randn(sum(lengths), NI, generator=torch.Generator().manual_seed(1), dtype=dtype)
    return X, torch.tensor(lengths, dtype=torch.int64)


def read_alone(network, X):
    """Both directions of one sequence, without buckets."""
    left, _ = network.forward_lstm(X.unsqueeze(1))
    right, _ = network.backward_lstm(X.flip(0).unsqueeze(1))
    return torch.cat((left[-1, 0], right[-1, 0]))


@given(st.lists(st.integers(1, 42), max_size=40))
def test_a_sequence_is_read_as_if_it_were_alone(lengths):
    X, sizes = make_input(lengths)
    received = NETWORK(X, sizes)
    assert received.shape == (len(lengths), NO)
    for row, part in zip(received, X.split(lengths), strict=True):
        torch.testing.assert_close(row, read_alone(NETWORK, part))


def test_gradients_are_those_of_finite_differences():
    network = make_network()
    X, lengths = make_input([3, 1, 7, 3, 2])
    X.requires_grad_(True)
    parameters = list(network.parameters())
    assert torch.autograd.gradcheck(lambda X, *_: network(X, lengths), (X, *parameters))


@pytest.mark.parametrize("n_words", [200, 1000])
def test_batches_of_words_have_few_shapes(n_words):
    shapes = set()
    for seed in range(50):
        generator = torch.Generator().manual_seed(seed)
        lengths = torch.randint(2, 43, (n_words + seed,), generator=generator)
        buckets = make_buckets(lengths, max_padding=0.3, step_bits=2)
        shapes |= {tuple(bucket.rows.shape) for bucket in buckets if len(bucket.docs) > 1}
    assert len({n_steps for n_steps, _ in shapes}) <= 10
    assert len(shapes) <= 80
