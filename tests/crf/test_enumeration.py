"""Everything the CRF computes against the sum or the maximum over all paths."""

import pytest
import torch
from every_path import SCHEMES, assert_close, draw_masks, draw_potentials, draw_scheme, has_paths, list_paths
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spacy_bilstm_crf import crf

# Lengths 0 to 5, and batches whose longest document has no, one or two tokens.
BATCHES = [[0, 1, 2, 3, 4, 5], [2, 1, 2, 0], [2], [1, 1], [0, 0]]
DTYPES = [torch.float64, torch.float32]


def assert_sums_equal_enumeration(potentials, possible, allowed, gold, dtype):
    log_z = crf.log_partition(potentials, possible)
    nll = crf.nll(potentials, gold, possible)
    marginal_nll = crf.marginal_nll(potentials, allowed, possible)
    marginals = crf.marginals(potentials, possible)
    pairs = crf.pairwise_marginals(potentials, possible)
    alpha, beta, forward_log_z = crf.forward_backward(potentials, possible)
    score = crf.path_score(potentials, gold)
    n_tags = potentials.emissions.shape[2]
    assert (nll >= 0).all()
    assert (marginal_nll >= 0).all()
    for doc, length in enumerate(potentials.lengths.tolist()):
        paths = list_paths(potentials, doc, possible)
        gold_score = paths.scores[(paths.tags == gold[doc, :length]).all(dim=1)][0]
        assert_close(log_z[doc], paths.log_partition, dtype)
        assert_close(forward_log_z[doc], paths.log_partition, dtype)
        assert_close(score[doc], gold_score, dtype)
        assert_close(nll[doc], paths.log_partition - gold_score, dtype)
        open_paths = list_paths(potentials, doc, allowed)
        assert_close(marginal_nll[doc], paths.log_partition - open_paths.log_partition, dtype)
        assert_close(marginals[doc, :length], paths.marginals(n_tags), dtype)
        joint = (alpha + beta - forward_log_z.view(-1, 1, 1)).exp()
        assert_close(joint[doc, :length], paths.marginals(n_tags), dtype)
        one_hot = torch.nn.functional.one_hot(paths.tags, n_tags)
        both = one_hot[:, :-1].unsqueeze(3) * one_hot[:, 1:].unsqueeze(2)
        assert_close(pairs[doc, : max(length - 1, 0)], (paths.probs.view(-1, 1, 1, 1) * both).sum(0), dtype)
        assert (marginals[doc, length:] == 0).all()
        assert (pairs[doc, max(length - 1, 0) :] == 0).all()
    sums = marginals.sum(dim=2)
    assert_close(sums, (torch.arange(sums.shape[1]) < potentials.lengths.unsqueeze(1)).double(), dtype)


def assert_maxima_equal_enumeration(potentials, possible, dtype, n=4):
    scores, tags = crf.viterbi(potentials, possible)
    n_scores, n_tags = crf.n_best(potentials, n, possible)
    assert tags.dtype == n_tags.dtype == torch.int64
    assert_close(crf.path_score(potentials, tags), scores, dtype)
    for doc, length in enumerate(potentials.lengths.tolist()):
        paths = list_paths(potentials, doc, possible)
        found = min(n, len(paths.tags))
        assert_close(scores[doc], paths.scores[0], dtype)
        assert_close(n_scores[doc, :found], paths.scores[:found], dtype)
        assert tags[doc, :length].tolist() == paths.tags[0].tolist()
        assert n_tags[doc, :found, :length].tolist() == paths.tags[:found].tolist()
        assert (tags[doc, length:] == -1).all()
        assert (n_tags[doc, :, length:] == -1).all()
        assert (n_scores[doc, found:] == -torch.inf).all()
        assert (n_tags[doc, found:] == -1).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("lengths", BATCHES, ids=str)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_equals_enumeration(scheme, lengths, dtype):
    potentials = draw_scheme(scheme, lengths, dtype=dtype, seed=len(lengths))
    for closed in (0.0, 0.4):
        possible, allowed, gold = draw_masks(potentials, closed=closed, seed=1)
        assert_sums_equal_enumeration(potentials, possible, allowed, gold, dtype)
        assert_maxima_equal_enumeration(potentials, possible, dtype)


@pytest.mark.parametrize("n_tags", [1, 2, 5])
@pytest.mark.parametrize("lengths", BATCHES, ids=str)
def test_unconstrained_equals_enumeration(lengths, n_tags):
    potentials = draw_potentials(lengths, n_tags)
    _, allowed, gold = draw_masks(potentials)
    assert_sums_equal_enumeration(potentials, None, allowed, gold, torch.float64)
    assert_maxima_equal_enumeration(potentials, None, torch.float64)


lattices = st.fixed_dictionaries(
    {
        "lengths": st.lists(st.integers(0, 4), min_size=1, max_size=4),
        "n_tags": st.integers(1, 4),
        "seed": st.integers(0, 2**16),
        # From flat to far beyond what probability space can hold.
        "spread": st.sampled_from([1e-3, 1.0, 5.0, 12.0, 30.0, 60.0, 120.0, 300.0, 1e4]),
        "forbidden": st.sampled_from([0.0, 0.2, 0.5]),
    }
)


@settings(max_examples=50, deadline=None)
@given(lattice=lattices, closed=st.sampled_from([0.0, 0.3, 0.6]))
def test_random_lattices_equal_enumeration(lattice, closed):
    potentials = draw_potentials(**lattice)
    assume(has_paths(potentials))
    possible, allowed, gold = draw_masks(potentials, closed=closed, seed=lattice["seed"])
    assert_sums_equal_enumeration(potentials, possible, allowed, gold, torch.float64)
    assert_maxima_equal_enumeration(potentials, possible, torch.float64)


@pytest.mark.parametrize("n", [1, 2, 9, 200])
def test_n_best_is_sorted_and_distinct(n):
    potentials = draw_scheme("BIOES", [0, 1, 2, 4], seed=3)
    assert_maxima_equal_enumeration(potentials, None, torch.float64, n=n)
    scores, tags = crf.n_best(potentials, n)
    assert scores.shape == (4, n)
    assert tags.shape == (4, n, 4)
    finite = scores.clamp(min=-1e9)
    assert (finite[:, :-1] >= finite[:, 1:]).all()
    for doc in range(4):
        paths = [tuple(path) for path, score in zip(tags[doc].tolist(), scores[doc], strict=True) if score > -torch.inf]
        assert len(set(paths)) == len(paths)


def test_ties_give_one_of_the_best_paths_and_all_of_the_n_best():
    moves = [torch.zeros(2, 2), torch.zeros(2), torch.zeros(2)]
    potentials = crf.Potentials(torch.zeros(1, 3, 2), torch.tensor([3]), *moves)
    scores, tags = crf.viterbi(potentials)
    assert scores.item() == 0
    assert set(tags[0].tolist()) <= {0, 1}
    scores, tags = crf.n_best(potentials, 9)
    assert (scores[0, :8] == 0).all()
    assert scores[0, 8] == -torch.inf
    assert len({tuple(path) for path in tags[0, :8].tolist()}) == 8


@settings(max_examples=30, deadline=None)
@given(lattice=lattices, segment_seed=st.integers(0, 2**16), restrict=st.booleans())
def test_segments_equal_enumeration(lattice, segment_seed, restrict):
    potentials = draw_potentials(**lattice)
    assume(has_paths(potentials))
    assume(int(potentials.lengths.max()) > 0)
    possible, _, gold = draw_masks(potentials, closed=0.2, seed=segment_seed)
    generator = torch.Generator().manual_seed(segment_seed)
    spans = [
        (doc, start, end)
        for doc, length in enumerate(potentials.lengths.tolist())
        for start in range(length)
        for end in range(start + 1, length + 1)
    ]
    docs, starts, ends = torch.tensor(spans).unbind(1)
    n_tags, longest = potentials.emissions.shape[2], int((ends - starts).max())
    tags = torch.randint(n_tags, (len(spans), longest), generator=generator)
    for row, (doc, start, end) in enumerate(spans):
        if torch.rand(1, generator=generator) < 0.6:
            tags[row, : end - start] = gold[doc, start:end]
        tags[row, end - start :] = -1
    masks = torch.rand(2, len(spans), n_tags, generator=generator) < 0.6 if restrict else [None, None]
    received = crf.segment_log_prob(
        potentials, docs, starts, ends, tags, before=masks[0], after=masks[1], possible_tags=possible
    )
    for row, (doc, start, end) in enumerate(spans):
        paths = list_paths(potentials, doc, possible)
        fits = (paths.tags[:, start:end] == tags[row, : end - start]).all(dim=1)
        if restrict and start > 0:
            fits &= masks[0][row][paths.tags[:, start - 1]]
        if restrict and end < int(potentials.lengths[doc]):
            fits &= masks[1][row][paths.tags[:, end]]
        expected = paths.scores[fits].logsumexp(0) - paths.log_partition
        # The difference of two large scores holds fewer digits.
        torch.testing.assert_close(received[row], expected, rtol=1e-9, atol=1e-9 * (1 + lattice["spread"]))
