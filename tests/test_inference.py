"""Ragged batches through the CRF, against enumeration of all paths."""

import itertools

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_bilstm_crf.inference import decode, loss_and_gradient, marginals
from spacy_bilstm_crf.types import AllowedTransitions, Annotation, CRFPotentials

N_TAGS = 3
LENGTHS = st.lists(st.integers(0, 4), min_size=1, max_size=6)
SEEDS = st.integers(0, 10_000)
# Legal: anything to 0, 0 to 1, 1 to 2, 2 to 2. Tag 2 may not begin, tag 1 may not end: there is always a path of zeros.
MOVES = AllowedTransitions(
    numpy.array([[True, True, False], [True, False, True], [True, False, True]]),
    numpy.array([True, True, False]),
    numpy.array([True, False, True]),
)


def make_potentials(lengths, seed, scale=2.0):
    rng = numpy.random.default_rng(seed)

    def draw(*shape):
        return (scale * rng.standard_normal(shape)).astype("float32")

    lengths = numpy.asarray(lengths, dtype="int64")
    return CRFPotentials(draw(lengths.sum(), N_TAGS), lengths, draw(N_TAGS, N_TAGS), draw(N_TAGS), draw(N_TAGS))


def make_possible(potentials, seed):
    """Rule out tags at random, never tag 0."""
    possible = numpy.random.default_rng(seed).random(potentials.emissions.shape) < 0.6
    possible[:, 0] = True
    return possible


def list_paths(n_tokens, moves, possible):
    for path in itertools.product(range(N_TAGS), repeat=n_tokens):
        if possible is not None and not all(possible[i, tag] for i, tag in enumerate(path)):
            continue
        if moves is not None and path:
            legal = moves.starts[path[0]] and moves.ends[path[-1]]
            if not legal or not all(moves.transitions[a, b] for a, b in itertools.pairwise(path)):
                continue
        yield path


def score_path(path, emissions, transitions, starts, ends):
    # Touches everything, so that everything has a gradient.
    score = sum(tensor.sum() for tensor in (emissions, transitions, starts, ends)) * 0.0
    for i, tag in enumerate(path):
        score = score + emissions[i, tag]
    for a, b in itertools.pairwise(path):
        score = score + transitions[a, b]
    return score + starts[path[0]] + ends[path[-1]] if path else score


def to_torch(potentials):
    arrays = (potentials.emissions, potentials.transitions, potentials.start_transitions, potentials.end_transitions)
    return [torch.tensor(array, dtype=torch.float64, requires_grad=True) for array in arrays]


def enumerate_docs(potentials, moves, possible, tensors=None):
    """Yield the rows of each document, its paths and their scores."""
    emissions, *transitions = tensors or to_torch(potentials)
    offset = 0
    for n_tokens in potentials.lengths.tolist():
        rows = slice(offset, offset + n_tokens)
        paths = list(list_paths(n_tokens, moves, None if possible is None else possible[rows]))
        scores = torch.stack([score_path(path, emissions[rows], *transitions) for path in paths])
        yield rows, paths, scores
        offset += n_tokens


def is_allowed(path, rows, annotation):
    for i, tag in enumerate(path, start=rows.start):
        gold = annotation.tags[i]
        if gold >= 0 and tag != gold:
            return False
        if gold < 0 and annotation.allowed_tags is not None and not annotation.allowed_tags[i, tag]:
            return False
    return True


def check_loss(potentials, annotation, moves, possible):
    received, gradient = loss_and_gradient(potentials, annotation, moves, possible)
    tensors = to_torch(potentials)
    expected = []
    for rows, paths, scores in enumerate_docs(potentials, moves, possible, tensors):
        allowed = torch.tensor([is_allowed(path, rows, annotation) for path in paths])
        expected.append(scores.logsumexp(0) - scores[allowed].logsumexp(0))
    torch.stack(expected).sum().backward()
    numpy.testing.assert_allclose(received, [float(loss.detach()) for loss in expected], atol=1e-4)
    arrays = (gradient.emissions, gradient.transitions, gradient.start_transitions, gradient.end_transitions)
    for array, tensor in zip(arrays, tensors, strict=True):
        assert array.dtype == numpy.float32
        numpy.testing.assert_allclose(array, tensor.grad.numpy(), atol=1e-4)


def draw_gold(potentials, moves, possible, seed):
    """A legal path for each document."""
    rng = numpy.random.default_rng(seed)
    docs = enumerate_docs(potentials, moves, possible)
    return numpy.array([tag for _, paths, _ in docs for tag in paths[rng.integers(len(paths))]], dtype="int64")


@settings(max_examples=30, deadline=None)
@given(LENGTHS, SEEDS, st.booleans(), st.booleans())
def test_decode_finds_the_best_path_of_each_document(lengths, seed, is_constrained, is_masked):
    potentials = make_potentials(lengths, seed)
    moves = MOVES if is_constrained else None
    possible = make_possible(potentials, seed) if is_masked else None
    received = decode(potentials, moves, possible)
    assert received.dtype == numpy.int64
    for rows, paths, scores in enumerate_docs(potentials, moves, possible):
        assert tuple(received[rows].tolist()) == paths[int(scores.argmax())]


@settings(max_examples=20, deadline=None)
@given(LENGTHS, SEEDS, st.booleans(), st.booleans())
def test_marginals_are_shares_of_all_paths(lengths, seed, is_constrained, is_masked):
    potentials = make_potentials(lengths, seed)
    moves = MOVES if is_constrained else None
    possible = make_possible(potentials, seed) if is_masked else None
    received = marginals(potentials, moves, possible)
    assert received.shape == potentials.emissions.shape
    for rows, paths, scores in enumerate_docs(potentials, moves, possible):
        expected = numpy.zeros((rows.stop - rows.start, N_TAGS))
        for path, probability in zip(paths, scores.softmax(0).tolist(), strict=True):
            expected[numpy.arange(len(path)), list(path)] += probability
        numpy.testing.assert_allclose(received[rows], expected, atol=1e-4)


@settings(max_examples=20, deadline=None)
@given(LENGTHS, SEEDS, st.booleans(), st.booleans())
def test_complete_annotation_has_the_likelihood_and_gradient_of_its_path(lengths, seed, is_constrained, is_masked):
    potentials = make_potentials(lengths, seed)
    moves = MOVES if is_constrained else None
    possible = make_possible(potentials, seed) if is_masked else None
    check_loss(potentials, Annotation(draw_gold(potentials, moves, possible, seed)), moves, possible)


@settings(max_examples=20, deadline=None)
@given(LENGTHS, SEEDS, st.booleans(), st.booleans())
def test_partial_annotation_has_the_likelihood_of_all_its_paths(lengths, seed, is_masked, has_open_tags):
    potentials = make_potentials(lengths, seed)
    possible = make_possible(potentials, seed) if is_masked else None
    gold = draw_gold(potentials, MOVES, possible, seed)
    rng = numpy.random.default_rng(seed)
    is_open = rng.random(len(gold)) < 0.5
    allowed_tags = None
    if has_open_tags:
        allowed_tags = rng.random(potentials.emissions.shape) < 0.5
        allowed_tags[numpy.arange(len(gold)), gold] = True
        if possible is not None:
            allowed_tags &= possible
    check_loss(potentials, Annotation(numpy.where(is_open, -1, gold), allowed_tags), MOVES, possible)


@pytest.mark.parametrize("is_masked", [True, False])
def test_nothing_annotated_teaches_exactly_nothing(is_masked):
    potentials = make_potentials([3, 0, 5], seed=1)
    possible = make_possible(potentials, 1) if is_masked else None
    losses, gradient = loss_and_gradient(potentials, Annotation(numpy.full(8, -1)), MOVES, possible)
    assert not losses.any()
    assert not gradient.emissions.any()
    assert not gradient.transitions.any()
    assert not gradient.start_transitions.any()
    assert not gradient.end_transitions.any()


def test_an_unannotated_document_does_not_touch_its_batch_mates():
    potentials = make_potentials([3, 4], seed=2)
    tags = numpy.array([0, 1, 2, -1, -1, -1, -1])
    losses, gradient = loss_and_gradient(potentials, Annotation(tags), MOVES)
    alone = CRFPotentials(potentials.emissions[:3], numpy.array([3]), *moves_of(potentials))
    expected, expected_gradient = loss_and_gradient(alone, Annotation(tags[:3]), MOVES)
    assert losses[1] == 0.0
    assert losses[0] == pytest.approx(expected[0])
    assert not gradient.emissions[3:].any()
    numpy.testing.assert_allclose(gradient.emissions[:3], expected_gradient.emissions, atol=1e-6)


def moves_of(potentials):
    return potentials.transitions, potentials.start_transitions, potentials.end_transitions


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=10), SEEDS)
def test_batches_change_neither_paths_nor_losses(lengths, seed):
    potentials = make_potentials(lengths, seed)
    paths = decode(potentials, MOVES)
    losses, gradient = loss_and_gradient(potentials, Annotation(paths), MOVES)
    offset = 0
    for doc, n_tokens in enumerate(lengths):
        rows = slice(offset, offset + n_tokens)
        alone = CRFPotentials(potentials.emissions[rows], numpy.array([n_tokens]), *moves_of(potentials))
        assert decode(alone, MOVES).tolist() == paths[rows].tolist()
        loss, part = loss_and_gradient(alone, Annotation(paths[rows]), MOVES)
        assert loss[0] == pytest.approx(losses[doc], abs=1e-5)
        numpy.testing.assert_allclose(part.emissions, gradient.emissions[rows], atol=1e-5)
        offset += n_tokens


def test_without_moves_the_loss_is_the_sum_of_cross_entropies():
    potentials = make_potentials([4, 1, 0, 6], seed=3)
    for scores in moves_of(potentials):
        scores[...] = 0.0
    tags = numpy.random.default_rng(3).integers(N_TAGS, size=11)
    losses, gradient = loss_and_gradient(potentials, Annotation(tags))
    emissions = torch.tensor(potentials.emissions, requires_grad=True)
    per_token = torch.nn.functional.cross_entropy(emissions, torch.tensor(tags), reduction="none")
    per_token.sum().backward()
    expected = [float(part.sum()) for part in per_token.detach().split([4, 1, 0, 6])]
    numpy.testing.assert_allclose(losses, expected, rtol=1e-5, atol=1e-6)
    numpy.testing.assert_allclose(gradient.emissions, emissions.grad.numpy(), atol=1e-6)


@pytest.mark.parametrize("lengths", [[], [0], [0, 0]])
def test_batches_without_tokens(lengths):
    potentials = make_potentials(lengths, seed=0)
    assert decode(potentials, MOVES).shape == (0,)
    assert marginals(potentials, MOVES).shape == (0, N_TAGS)
    losses, gradient = loss_and_gradient(potentials, Annotation(numpy.zeros(0, dtype="int64")), MOVES)
    assert losses.tolist() == [0.0] * len(lengths)
    assert gradient.emissions.shape == (0, N_TAGS)
    assert not gradient.transitions.any()


def test_potentials_are_left_as_they_were():
    potentials = make_potentials([3, 5], seed=4)
    before = [array.copy() for array in (potentials.emissions, *moves_of(potentials))]
    loss_and_gradient(potentials, Annotation(decode(potentials, MOVES)), MOVES)
    after = (potentials.emissions, *moves_of(potentials))
    assert all(numpy.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_large_scores_stay_finite():
    potentials = make_potentials([5, 40], seed=5, scale=1e4)
    losses, gradient = loss_and_gradient(potentials, Annotation(numpy.zeros(45, dtype="int64")), MOVES)
    assert numpy.isfinite(losses).all()
    assert numpy.isfinite(gradient.emissions).all()
