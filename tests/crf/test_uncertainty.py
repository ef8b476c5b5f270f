"""Entropy and the probability of sets of paths against the sum over all paths."""

import itertools

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_bilstm_crf import crf


def make_potentials(lengths, n_tags, seed, spread=1.5):
    generator = torch.Generator().manual_seed(seed)
    emissions, moves, start, end = (
        torch.randn(*shape, generator=generator) * spread
        for shape in ((len(lengths), max(lengths), n_tags), (n_tags, n_tags), (n_tags,), (n_tags,))
    )
    for doc, length in enumerate(lengths):
        emissions[doc, length:] = float("nan")
    moves[torch.rand(n_tags, n_tags, generator=generator) < 0.3] = float("-inf")
    moves.fill_diagonal_(0.5)
    return crf.Potentials(emissions, torch.tensor(lengths), moves, start, end)


def enumerate_paths(potentials, doc, possible):
    length, n_tags = int(potentials.lengths[doc]), potentials.emissions.shape[2]
    paths = numpy.array(list(itertools.product(range(n_tags), repeat=length)), dtype=int).reshape(
        n_tags**length, length
    )
    emissions, moves, start, end = (potentials[i].to(torch.float64).numpy() for i in (0, 2, 3, 4))
    scores = numpy.zeros(len(paths))
    if length:
        scores += start[paths[:, 0]] + end[paths[:, -1]] + emissions[doc, numpy.arange(length), paths].sum(axis=1)
        scores += moves[paths[:, :-1], paths[:, 1:]].sum(axis=1)
        scores[~is_within(possible, doc, paths)] = -numpy.inf
    weights = numpy.exp(scores - scores.max())
    return paths, weights / weights.sum()


def is_within(mask, doc, paths):
    length = paths.shape[1]
    return mask[doc].numpy()[numpy.arange(length), paths].all(axis=1)


@given(
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=4).filter(any),
    n_tags=st.integers(1, 4),
    seed=st.integers(0, 1000),
    spread=st.sampled_from([0.1, 1.5, 20.0]),
)
@settings(max_examples=60, deadline=None)
def test_entropy_and_allowed_paths_equal_enumeration(lengths, n_tags, seed, spread):
    potentials = make_potentials(lengths, n_tags, seed, spread)
    possible = torch.rand(potentials.emissions.shape, generator=torch.Generator().manual_seed(seed)) < 0.7
    possible[:, :, 0] = True
    allowed = torch.rand(possible.shape, generator=torch.Generator().manual_seed(seed + 1)) < 0.7
    entropy = crf.entropy(potentials, possible).tolist()
    log_probs = crf.allowed_log_prob(potentials, allowed, possible).exp().tolist()
    for doc in range(len(lengths)):
        paths, weights = enumerate_paths(potentials, doc, possible)
        positive = weights[weights > 0]
        assert entropy[doc] == pytest.approx(-(positive * numpy.log(positive)).sum(), abs=1e-9)
        assert log_probs[doc] == pytest.approx(weights[is_within(allowed, doc, paths)].sum(), abs=1e-9)


def test_equal_scores_have_the_largest_entropy():
    zeros = torch.zeros
    potentials = crf.Potentials(zeros(1, 5, 3), torch.tensor([5]), zeros(3, 3), zeros(3), zeros(3))
    assert crf.entropy(potentials).item() == pytest.approx(5 * numpy.log(3))
