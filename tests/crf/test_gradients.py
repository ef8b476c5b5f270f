"""Gradients in closed form against autograd, finite differences and what must be exactly zero."""

import pytest
import torch
from every_path import SCHEMES, assert_close, draw_masks, draw_potentials, draw_scheme, has_paths, list_paths
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spacy_bilstm_crf import crf

NAMES = crf.Gradient._fields


def with_autograd(potentials):
    return potentials._replace(**{name: getattr(potentials, name).detach().clone().requires_grad_() for name in NAMES})


def enumerated_loss(potentials, possible, *, gold=None, allowed=None):
    loss = torch.zeros((), dtype=torch.float64)
    for doc, length in enumerate(potentials.lengths.tolist()):
        paths = list_paths(potentials, doc, possible)
        if gold is not None:
            loss = loss + paths.log_partition - paths.scores[(paths.tags == gold[doc, :length]).all(dim=1)][0]
        else:
            loss = loss + paths.log_partition - list_paths(potentials, doc, allowed).log_partition
    return loss


def assert_gradient_equals_autograd(gradient, potentials, loss):
    loss.backward()
    for name in NAMES:
        expected = getattr(potentials, name).grad
        received = getattr(gradient, name)
        assert received.dtype == getattr(potentials, name).dtype
        assert received.shape == getattr(potentials, name).shape
        assert not received.requires_grad
        # Autograd leaves what is in no path alone: forbidden moves and the padding.
        assert_close(received, torch.zeros_like(received) if expected is None else expected, received.dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("lengths", [[0, 1, 2, 3, 4], [2, 1], [2], [1]], ids=str)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_gradients_equal_autograd_in_every_scheme(scheme, lengths, dtype):
    potentials = with_autograd(draw_scheme(scheme, lengths, dtype=dtype))
    possible, allowed, gold = draw_masks(potentials)
    loss, gradient = crf.nll_and_gradient(potentials, gold, possible)
    assert_close(loss, crf.nll(potentials, gold, possible), dtype)
    assert_gradient_equals_autograd(gradient, potentials, enumerated_loss(potentials, possible, gold=gold))
    potentials = with_autograd(potentials)
    loss, gradient = crf.marginal_nll_and_gradient(potentials, allowed, possible)
    assert_close(loss, crf.marginal_nll(potentials, allowed, possible), dtype)
    assert_gradient_equals_autograd(gradient, potentials, enumerated_loss(potentials, possible, allowed=allowed))


@settings(max_examples=30, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 4), min_size=1, max_size=3),
    n_tags=st.integers(1, 4),
    seed=st.integers(0, 2**16),
    spread=st.sampled_from([1.0, 10.0, 40.0, 200.0, 1e4]),
    forbidden=st.sampled_from([0.0, 0.3]),
)
def test_gradients_equal_autograd_at_any_scale(lengths, n_tags, seed, spread, forbidden):
    assume(any(lengths))
    potentials = draw_potentials(lengths, n_tags, seed=seed, spread=spread, forbidden=forbidden)
    assume(has_paths(potentials))
    possible, allowed, gold = draw_masks(potentials, seed=seed)
    potentials = with_autograd(potentials)
    gradient = crf.nll_and_gradient(potentials, gold, possible)[1]
    assert_gradient_equals_autograd(gradient, potentials, enumerated_loss(potentials, possible, gold=gold))
    potentials = with_autograd(potentials)
    gradient = crf.marginal_nll_and_gradient(potentials, allowed, possible)[1]
    assert_gradient_equals_autograd(gradient, potentials, enumerated_loss(potentials, possible, allowed=allowed))


def test_log_partition_gradient_is_weighted_per_document():
    potentials = with_autograd(draw_scheme("BIO", [3, 0, 2, 4], spread=3.0))
    weights = torch.tensor([1.0, 5.0, -0.5, 0.0], dtype=torch.float64)
    log_z, gradient = crf.log_partition_and_gradient(potentials, weights=weights)
    expected = torch.stack([list_paths(potentials, doc).log_partition for doc in range(4)])
    assert_close(log_z, expected, torch.float64)
    assert_gradient_equals_autograd(gradient, potentials, (weights * expected).sum())


@pytest.mark.parametrize("partial", [True, False])
def test_gradients_equal_finite_differences(partial):
    potentials = draw_scheme("BIOES", [3, 2, 0], spread=2.0)
    possible, allowed, gold = draw_masks(potentials)

    def loss(shifted):
        if partial:
            return float(crf.marginal_nll(shifted, allowed, possible).sum())
        return float(crf.nll(shifted, gold, possible).sum())

    if partial:
        gradient = crf.marginal_nll_and_gradient(potentials, allowed, possible)[1]
    else:
        gradient = crf.nll_and_gradient(potentials, gold, possible)[1]
    step = 1e-5
    for name in NAMES:
        scores = getattr(potentials, name)
        for cell in scores.isfinite().nonzero().tolist():
            shift = torch.zeros_like(scores)
            shift[tuple(cell)] = step
            up, down = (loss(potentials._replace(**{name: scores + sign * shift})) for sign in (1, -1))
            assert abs((up - down) / (2 * step) - float(getattr(gradient, name)[tuple(cell)])) < 1e-7, (name, cell)


@pytest.mark.parametrize("spread", [1.0, 40.0, 1e4])
def test_nothing_annotated_gives_exactly_zero(spread):
    potentials = draw_scheme("BIOES", [4, 2, 0, 5], spread=spread, dtype=torch.float32)
    possible, _, _ = draw_masks(potentials)
    for masks in ((possible, possible), (torch.ones_like(possible), None), (torch.ones_like(possible), possible)):
        loss, gradient = crf.marginal_nll_and_gradient(potentials, *masks)
        assert (loss == 0).all()
        assert all((part == 0).all() for part in gradient)


def test_a_document_with_nothing_annotated_stays_zero_beside_others():
    potentials = draw_scheme("BIO", [4, 3, 2], dtype=torch.float32)
    possible, allowed, _ = draw_masks(potentials)
    allowed[1] = possible[1]
    # What a mask says of the padding does not matter.
    allowed[1, 3:] = False
    allowed[2, 2:] = True
    loss, gradient = crf.marginal_nll_and_gradient(potentials, allowed, possible)
    assert loss[1] == 0
    assert loss[0] > 0
    assert (gradient.emissions[1] == 0).all()
    rest = potentials._replace(emissions=potentials.emissions[::2], lengths=potentials.lengths[::2])
    alone = crf.marginal_nll_and_gradient(rest, allowed[::2], possible[::2])[1]
    for name in NAMES[1:]:
        assert_close(getattr(gradient, name), getattr(alone, name), torch.float32)


def test_a_full_annotation_read_as_partial_is_the_ordinary_loss():
    potentials = draw_scheme("BIO", [5, 3, 0, 1])
    possible, _, gold = draw_masks(potentials)
    allowed = torch.zeros_like(possible).scatter_(2, gold.clamp(min=0).unsqueeze(2), True)
    ordinary = crf.nll_and_gradient(potentials, gold, possible)
    marginal = crf.marginal_nll_and_gradient(potentials, allowed, possible)
    assert_close(marginal[0], ordinary[0], torch.float64)
    for one, other in zip(marginal[1], ordinary[1], strict=True):
        assert_close(one, other, torch.float64)


@pytest.mark.parametrize("spread", [1.0, 60.0, 1e4])
def test_forbidden_moves_have_gradient_zero(spread):
    potentials = draw_scheme("BIOES", [5, 5, 3], spread=spread, dtype=torch.float32)
    _, _, gold = draw_masks(potentials)
    _, gradient = crf.nll_and_gradient(potentials, gold)
    for name in NAMES:
        part = getattr(gradient, name)
        assert part.isfinite().all()
        assert (part[getattr(potentials, name) == -torch.inf] == 0).all()
    assert (gradient.emissions[2, 3:] == 0).all()


def test_each_part_of_the_gradient_has_the_dtype_of_its_potential():
    potentials = draw_scheme("BIO", [3, 2], dtype=torch.float32)
    potentials = potentials._replace(
        emissions=potentials.emissions.bfloat16(), end_transitions=potentials.end_transitions.double()
    )
    _, allowed, gold = draw_masks(potentials)
    for _, gradient in (
        crf.nll_and_gradient(potentials, gold),
        crf.marginal_nll_and_gradient(potentials, allowed),
        crf.log_partition_and_gradient(potentials),
    ):
        assert [part.dtype for part in gradient] == [torch.bfloat16, torch.float32, torch.float32, torch.float64]
