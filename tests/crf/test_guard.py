"""Scale, length, precision, padding and bad input."""

import time

import pytest
import torch
from every_path import SCHEMES, assert_close, draw_masks, draw_potentials, draw_scheme, list_paths

from spacy_bilstm_crf import crf
from spacy_bilstm_crf.crf import expectations, log_space, probability_space
from spacy_bilstm_crf.crf import potentials as potentials_module


@pytest.fixture
def without_float64(monkeypatch):
    """A device without float64, as far as the CRF can tell."""
    for module in (expectations, potentials_module):
        monkeypatch.setattr(module, "has_float64", lambda device: False)


@pytest.fixture
def without_log_space(monkeypatch):
    """Fail where the slow route is taken."""

    def refuse(*args, **kwargs):
        raise AssertionError("log space was not expected")

    monkeypatch.setattr(log_space, "log_messages", refuse)


def two_lanes(first, second):
    """One document with two tags that never change: its paths are the two lanes."""
    emissions = torch.tensor([first, second], dtype=torch.float64).t().unsqueeze(0)
    transitions = crf.constrain(torch.zeros(2, 2).double(), torch.eye(2, dtype=torch.bool))
    return crf.Potentials(emissions, torch.tensor([len(first)]), transitions, *torch.zeros(2, 2).double())


@pytest.mark.parametrize("step", [0.5, 5.0, 12.0, 25.0, 57.0, 100.0, 229.0, 400.0, 1e4])
@pytest.mark.parametrize("order", ["early", "late", "middle"])
def test_what_looks_lost_comes_back(step, order):
    # One lane falls behind so far that it would round to zero, and is the better one in the end.
    behind, ahead = [-step] * 90 + [0.0] * 90, [0.0] * 90 + [-step - 0.5] * 90
    if order == "late":
        behind, ahead = behind[::-1], ahead[::-1]
    if order == "middle":
        behind, ahead = [-step] * 40 + [0.0] * 100 + [-step] * 40, [0.0] * 40 + [-step] * 100 + [0.0] * 40
    potentials = two_lanes(behind, ahead)
    scores = torch.tensor([sum(behind), sum(ahead)], dtype=torch.float64)
    assert_close(crf.log_partition(potentials)[0], scores.logsumexp(0), torch.float64)
    assert_close(crf.forward_backward(potentials)[2][0], scores.logsumexp(0), torch.float64)
    assert_close(crf.marginals(potentials)[0], scores.softmax(0).expand(len(behind), 2), torch.float64)
    assert_close(crf.viterbi(potentials)[0][0], scores.max(), torch.float64)
    gradient = crf.log_partition_and_gradient(potentials)[1]
    assert_close(gradient.transitions.diagonal(), scores.softmax(0) * (len(behind) - 1), torch.float64)


@pytest.mark.parametrize("fall", [10.0, 27.0, 57.0, 100.0, 229.0, 400.0, 1e3])
def test_a_lane_that_falls_fast_and_wins_slowly(fall):
    # Both directions lose the better lane at once, and nothing that is left looks odd. A calm document beside it
    # would have its batch rescaled rarely.
    slow = min(7.0, fall / 2)
    n_slow = int(20 * fall / slow) + 30
    lanes = two_lanes([-fall] * 10 + [0.0] * n_slow + [-fall] * 10, [0.0] * 10 + [-slow] * n_slow + [0.0] * 10)
    calm = torch.zeros_like(lanes.emissions)
    potentials = lanes._replace(emissions=torch.cat([calm, lanes.emissions]), lengths=lanes.lengths.repeat(2))
    scores = torch.tensor([-20 * fall, -slow * n_slow], dtype=torch.float64)
    assert_close(crf.log_partition(potentials)[1], scores.logsumexp(0), torch.float64)
    assert_close(crf.marginals(potentials)[1], scores.softmax(0).expand(n_slow + 20, 2), torch.float64)
    assert_close(crf.marginals(potentials)[0], torch.full_like(calm[0], 0.5), torch.float64)


@pytest.mark.parametrize("depth", [5.0, 20.0, 23.0, 26.0, 27.0, 28.0, 50.0, 200.0])
def test_dead_ends_that_beckon(depth):
    # A third tag scores far better at every token and leads nowhere.
    potentials = draw_potentials([62], 3, spread=0.1)
    potentials.emissions[0, :, 2] = depth
    transitions = torch.zeros(3, 3).double()
    transitions[2] = -torch.inf
    ends = torch.tensor([0.0, 0.0, -torch.inf]).double()
    potentials = potentials._replace(transitions=transitions, start_transitions=torch.zeros(3), end_transitions=ends)
    by_token = potentials.emissions[0, :, :2]
    assert_close(crf.log_partition(potentials)[0], by_token.logsumexp(1).sum(), torch.float64)
    assert_close(crf.marginals(potentials)[0, :, :2], by_token.softmax(1), torch.float64)
    assert (crf.marginals(potentials)[0, :, 2] == 0).all()


@pytest.mark.parametrize("spread", [50.0, 100.0, 230.0, 1e3, 1e4])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_large_scores_under_hard_masks(scheme, spread):
    for seed in range(3):
        potentials = draw_scheme(scheme, [4, 4, 1, 0], spread=spread, seed=seed)
        possible, _, gold = draw_masks(potentials, seed=seed)
        log_z = crf.log_partition(potentials, possible)
        marginals = crf.marginals(potentials, possible)
        loss, gradient = crf.nll_and_gradient(potentials, gold, possible)
        assert all(part.isfinite().all() for part in (log_z, marginals, loss, *gradient))
        for doc, length in enumerate([4, 4, 1, 0]):
            paths = list_paths(potentials, doc, possible)
            assert_close(log_z[doc], paths.log_partition, torch.float64)
            assert_close(marginals[doc, :length], paths.marginals(potentials.emissions.shape[2]), torch.float64)


@pytest.mark.parametrize("offset", [1e3, -1e3, 1e6])
def test_an_offset_of_all_scores_changes_nothing(offset):
    potentials = draw_potentials([4, 2], 3)
    for name in crf.Gradient._fields:
        moved = potentials._replace(**{name: getattr(potentials, name) + offset})
        torch.testing.assert_close(crf.marginals(moved), crf.marginals(potentials), rtol=1e-7, atol=1e-7)
        assert torch.equal(crf.viterbi(moved)[1], crf.viterbi(potentials)[1])


@pytest.mark.parametrize("spread", [1.0, 4.0, 8.0])
def test_ordinary_scores_stay_in_probability_space(without_log_space, spread):
    for seed in range(5):
        potentials = draw_scheme("BIOES", [40, 7, 0, 1], spread=spread, seed=seed, dtype=torch.float32)
        crf.log_partition_and_gradient(potentials)
        crf.forward_backward(potentials)


def test_only_the_documents_that_need_it_go_to_log_space(monkeypatch):
    seen = []
    original = log_space.log_messages

    def record(lattice, doc_index=None):
        seen.append(doc_index.tolist())
        return original(lattice, doc_index)

    potentials = draw_scheme("BIO", [5, 4, 5, 2])
    potentials.emissions[2] *= 1e4
    weights = torch.tensor([1.0, 0.5, 2.0, 0.0], dtype=torch.float64)
    with monkeypatch.context() as patch:
        patch.setattr(log_space, "log_messages", record)
        log_z, gradient = crf.log_partition_and_gradient(potentials, weights=weights)
        alpha, _, _ = crf.forward_backward(potentials)
    assert seen == [[2], [2]]
    with monkeypatch.context() as patch:
        patch.setattr(expectations, "has_float64", lambda device: False)
        slow_log_z, slow_gradient = crf.log_partition_and_gradient(potentials, weights=weights)
        slow_alpha, _, _ = crf.forward_backward(potentials)
    assert_close(log_z, slow_log_z, torch.float64)
    assert_close(alpha, slow_alpha, torch.float64)
    for fast, slow in zip(gradient, slow_gradient, strict=True):
        assert_close(fast, slow, torch.float64)


@pytest.mark.parametrize("spread", [1.0, 30.0, 1e3])
def test_a_device_without_float64_works(without_float64, spread):
    potentials = draw_scheme("BIOES", [0, 1, 2, 5], spread=spread, dtype=torch.float32)
    possible, allowed, gold = draw_masks(potentials)
    log_z, marginals = crf.log_partition(potentials, possible), crf.marginals(potentials, possible)
    outputs = [
        log_z,
        marginals,
        crf.nll(potentials, gold, possible),
        *crf.nll_and_gradient(potentials, gold, possible)[1],
        *crf.marginal_nll_and_gradient(potentials, allowed, possible)[1],
        *crf.forward_backward(potentials, possible),
        crf.pairwise_marginals(potentials, possible),
        crf.viterbi(potentials, possible)[0],
        crf.n_best(potentials, 2, possible)[0],
        crf.path_score(potentials, gold),
    ]
    assert {output.dtype for output in outputs} == {torch.float32}
    for doc, length in enumerate([0, 1, 2, 5]):
        paths = list_paths(potentials, doc, possible)
        torch.testing.assert_close(log_z[doc].double(), paths.log_partition, rtol=1e-5, atol=1e-4)
        torch.testing.assert_close(marginals[doc, :length].double(), paths.marginals(5), rtol=0, atol=1e-3)


def test_long_documents_keep_their_precision_without_float64(monkeypatch):
    potentials = draw_potentials([2000], 5, dtype=torch.float32)
    fast = crf.marginals(potentials)
    for module in (expectations, potentials_module):
        monkeypatch.setattr(module, "has_float64", lambda device: False)
    torch.testing.assert_close(crf.marginals(potentials), fast, rtol=0, atol=1e-4)


def test_100_000_tokens():
    # Transitions of the form row + column leave the tokens independent: everything has a closed form.
    n_tokens, n_tags = 100_000, 17
    free = draw_potentials([n_tokens], n_tags, spread=2.0, dtype=torch.float32)
    leaving, entering = free.start_transitions.double(), free.end_transitions.double()
    potentials = free._replace(transitions=(leaving.unsqueeze(1) + entering).float())
    by_token = free.emissions[0].double()
    by_token[1:] += entering
    by_token[:-1] += leaving
    by_token[0] += free.start_transitions
    by_token[-1] += free.end_transitions
    best, gold = by_token.max(dim=1)
    loss, gradient = crf.nll_and_gradient(potentials, gold.unsqueeze(0))
    scores, tags = crf.viterbi(potentials)
    torch.testing.assert_close(loss[0], by_token.logsumexp(1).sum() - best.sum(), rtol=1e-5, atol=0)
    expected = by_token.softmax(1) - torch.nn.functional.one_hot(gold, n_tags)
    torch.testing.assert_close(gradient.emissions[0].double(), expected, rtol=0, atol=1e-5)
    # float32 may take either of two tags that differ by less than its rounding.
    chosen = by_token.gather(1, tags[0].unsqueeze(1)).squeeze(1)
    assert (best - chosen).max() < 1e-4
    torch.testing.assert_close(scores[0], chosen.sum(), rtol=1e-6, atol=0)


def test_time_is_linear_in_length():
    def seconds(n_tokens):
        potentials = draw_potentials([n_tokens], 9, dtype=torch.float32)
        gold = torch.zeros(1, n_tokens, dtype=torch.int64)
        begin = time.process_time()
        crf.nll_and_gradient(potentials, gold)
        crf.viterbi(potentials)
        return time.process_time() - begin

    short = min(seconds(2_500) for _ in range(3))
    assert min(seconds(20_000) for _ in range(2)) < 16 * short


@pytest.mark.parametrize("spread", [1.0, 50.0])
def test_batch_mates_padding_and_order_change_nothing(spread):
    lengths = [7, 40, 1, 0, 23, 2, 40, 17, 3, 5]
    potentials = draw_scheme("BIOES", lengths, spread=spread, dtype=torch.float32)
    batch = potentials._replace(emissions=potentials.emissions.repeat(4, 1, 1), lengths=potentials.lengths.repeat(4))
    padded = potentials._replace(emissions=torch.nn.functional.pad(potentials.emissions, (0, 0, 0, 30), value=1e30))
    order = torch.randperm(len(lengths), generator=torch.Generator().manual_seed(0))
    moved = potentials._replace(emissions=potentials.emissions[order], lengths=potentials.lengths[order])
    scores, tags = crf.viterbi(potentials)
    log_z, marginals = crf.log_partition(potentials), crf.marginals(potentials)
    for other, pick in ((batch, slice(30, 40)), (padded, slice(None)), (moved, order.argsort())):
        other_scores, other_tags = crf.viterbi(other)
        assert torch.equal(other_tags[pick][:, :40], tags)
        assert (other_tags[:, 40:] == -1).all()
        assert torch.equal(other_scores[pick], scores)
        torch.testing.assert_close(crf.log_partition(other)[pick], log_z, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(crf.marginals(other)[pick][:, :40], marginals, rtol=0, atol=1e-6)
    for doc, length in enumerate(lengths):
        alone = potentials._replace(emissions=potentials.emissions[doc, None, :length], lengths=torch.tensor([length]))
        assert torch.equal(crf.viterbi(alone)[1][0], tags[doc, :length])
        torch.testing.assert_close(crf.log_partition(alone)[0], log_z[doc], rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(crf.marginals(alone)[0], marginals[doc, :length], rtol=0, atol=1e-6)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("padding", [float("nan"), float("inf"), float("-inf"), 3e38, -3e38])
def test_the_padding_may_hold_anything(padding):
    clean, dirty = (draw_scheme("BIO", [4, 1, 0, 3], dtype=torch.float32, padding=value) for value in (0.0, padding))
    possible, allowed, gold = draw_masks(clean)
    tags = gold.masked_fill(gold == -1, 10**6)
    for call in (
        lambda potentials: [crf.log_partition(potentials, possible)],
        lambda potentials: [crf.path_score(potentials, tags)],
        lambda potentials: [crf.path_log_prob(potentials, tags, possible)],
        lambda potentials: [crf.marginals(potentials), crf.pairwise_marginals(potentials)],
        lambda potentials: crf.viterbi(potentials),
        lambda potentials: crf.viterbi(potentials, possible),
        lambda potentials: crf.n_best(potentials, 3, possible),
        lambda potentials: crf.forward_backward(potentials, possible),
        lambda potentials: crf.nll_and_gradient(potentials, tags, possible)[1],
        lambda potentials: crf.marginal_nll_and_gradient(potentials, allowed, possible)[1],
    ):
        for one, other in zip(call(dirty), call(clean), strict=True):
            assert torch.equal(one, other)


def test_emissions_of_minus_infinity_are_impossible_tags():
    potentials = draw_scheme("BIO", [4, 2, 0, 5])
    possible, _, gold = draw_masks(potentials)
    masked = potentials._replace(emissions=potentials.emissions.masked_fill(~possible, -torch.inf))
    for call in (
        lambda potentials, possible: [crf.log_partition(potentials, possible), crf.marginals(potentials, possible)],
        lambda potentials, possible: crf.viterbi(potentials, possible),
        lambda potentials, possible: crf.n_best(potentials, 3, possible),
        lambda potentials, possible: crf.nll_and_gradient(potentials, gold, possible)[1],
    ):
        for one, other in zip(call(masked, None), call(potentials, possible), strict=True):
            assert torch.equal(one, other)


def test_time_major_emissions_come_in_as_a_view():
    potentials = draw_scheme("BIO", [4, 2, 5], dtype=torch.float32)
    view = potentials._replace(emissions=potentials.emissions.transpose(0, 1).contiguous().transpose(0, 1))
    assert torch.equal(crf.viterbi(view)[1], crf.viterbi(potentials)[1])
    assert torch.equal(crf.marginals(view), crf.marginals(potentials))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("spread", [1.0, 1e3])
def test_arguments_are_left_alone(dtype, spread):
    potentials = draw_scheme("BIOES", [5, 5], dtype=dtype, spread=spread)
    possible, allowed, gold = draw_masks(potentials)
    arguments = (*potentials, possible, allowed, gold)
    before = [argument.clone() for argument in arguments]
    crf.nll_and_gradient(potentials, gold, possible)
    crf.marginal_nll_and_gradient(potentials, allowed, possible)
    crf.viterbi(potentials, possible)
    crf.n_best(potentials, 3)
    crf.forward_backward(potentials)
    crf.pairwise_marginals(potentials, possible)
    assert all(torch.equal(argument, copy) for argument, copy in zip(arguments, before, strict=True))


def test_autocast_does_not_narrow_anything():
    potentials = draw_scheme("BIOES", [30, 12], dtype=torch.float32, spread=5.0)
    gold = crf.viterbi(potentials)[1]
    expected = (*crf.nll_and_gradient(potentials, gold)[1], *crf.forward_backward(potentials))
    with torch.autocast("cpu", torch.bfloat16):
        received = (*crf.nll_and_gradient(potentials, gold)[1], *crf.forward_backward(potentials))
        assert torch.is_autocast_enabled("cpu")
    for one, other in zip(expected, received, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


def test_bfloat16_emissions_are_worked_on_in_float32():
    potentials = draw_scheme("BIO", [30], dtype=torch.float32)
    narrow = potentials._replace(emissions=potentials.emissions.bfloat16())
    wide = narrow._replace(emissions=narrow.emissions.float())
    assert torch.equal(crf.log_partition(narrow), crf.log_partition(wide))
    assert torch.equal(crf.viterbi(narrow)[1], crf.viterbi(wide)[1])
    assert crf.marginals(narrow).dtype == torch.float32


def test_no_graph_is_built():
    potentials = draw_scheme("BIO", [4])
    potentials.emissions.requires_grad_()
    assert not crf.log_partition(potentials).requires_grad
    assert not crf.viterbi(potentials)[0].requires_grad
    # What is returned can still take part in a graph.
    weight = torch.ones((), requires_grad=True)
    (weight * crf.marginals(potentials)).sum().backward()
    assert weight.grad > 0


@pytest.mark.parametrize(("n_docs", "n_tokens"), [(0, 0), (0, 3), (2, 0), (2, 3)])
def test_empty_batches(n_docs, n_tokens):
    potentials = draw_potentials([0] * n_docs, 4)
    potentials = potentials._replace(emissions=torch.full((n_docs, n_tokens, 4), torch.nan))
    tags, masks = torch.zeros(n_docs, n_tokens).long(), torch.ones(n_docs, n_tokens, 4).bool()
    assert crf.log_partition(potentials).tolist() == [0] * n_docs
    assert crf.nll(potentials, tags).tolist() == [0] * n_docs
    assert crf.marginal_nll(potentials, masks, masks).tolist() == [0] * n_docs
    assert crf.marginals(potentials).shape == (n_docs, n_tokens, 4)
    assert crf.pairwise_marginals(potentials).shape == (n_docs, max(n_tokens - 1, 0), 4, 4)
    assert crf.viterbi(potentials)[0].tolist() == [0] * n_docs
    assert crf.viterbi(potentials)[1].tolist() == [[-1] * n_tokens] * n_docs
    assert crf.n_best(potentials, 2)[0].tolist() == [[0, -torch.inf]] * n_docs
    assert all((part == 0).all() for part in crf.nll_and_gradient(potentials, tags)[1])


FUNCTIONS = {
    "log_partition": crf.log_partition,
    "marginals": crf.marginals,
    "forward_backward": crf.forward_backward,
    "viterbi": crf.viterbi,
    "n_best": lambda potentials, possible=None: crf.n_best(potentials, 2, possible),
    "nll": lambda potentials, possible=None: crf.nll(potentials, torch.zeros(3, 4).long(), possible),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_document_without_a_path_is_named(name):
    potentials = draw_potentials([4, 3, 2], 3, padding=0.0)
    possible = torch.ones(3, 4, 3, dtype=torch.bool)
    possible[1, 2] = False
    with pytest.raises(ValueError, match=r"\[CRF101\] Document 1 "):
        FUNCTIONS[name](potentials, possible)
    dead_end = potentials._replace(transitions=torch.full((3, 3), -torch.inf), lengths=torch.tensor([1, 0, 2]))
    with pytest.raises(ValueError, match=r"\[CRF101\] Document 2 "):
        FUNCTIONS[name](dead_end)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_scores_that_are_not_finite_are_named(name, bad):
    potentials = draw_potentials([4, 3, 2], 3, padding=0.0)
    potentials.emissions[1, 2, 1] = bad
    with pytest.raises(ValueError, match=r"\[CRF102\] .*document 1 "):
        FUNCTIONS[name](potentials)
    potentials = draw_potentials([4, 3, 2], 3, padding=0.0)
    potentials.transitions[1, 2] = bad
    with pytest.raises(ValueError, match=r"\[CRF102\]"):
        FUNCTIONS[name](potentials)


def test_a_partial_annotation_without_a_path_is_named():
    potentials = draw_potentials([4, 3, 2], 3)
    allowed = torch.ones(3, 4, 3, dtype=torch.bool)
    allowed[2, 1] = False
    with pytest.raises(ValueError, match=r"\[CRF101\] Document 2 "):
        crf.marginal_nll_and_gradient(potentials, allowed)


def test_an_impossible_annotation_has_probability_zero_and_no_gradient():
    potentials = draw_scheme("BIO", [3, 3])
    gold = torch.tensor([[0, 0, 0], [0, 2, 0]])  # O, I-A
    assert crf.path_score(potentials, gold)[1] == -torch.inf
    assert crf.path_log_prob(potentials, gold)[1] == -torch.inf
    assert crf.nll(potentials, gold)[1] == torch.inf
    with pytest.raises(ValueError, match=r"\[CRF104\] .*document 1 "):
        crf.nll_and_gradient(potentials, gold)


def test_wrong_shapes_are_named():
    potentials = draw_potentials([3, 2], 4)
    with pytest.raises(ValueError, match=r"\[CRF103\] The lengths .*\(3,\), expected \(2,\)"):
        crf.log_partition(potentials._replace(lengths=torch.ones(3).long()))
    with pytest.raises(ValueError, match=r"\[CRF103\] The transitions .*\(3, 3\), expected \(4, 4\)"):
        crf.viterbi(potentials._replace(transitions=torch.zeros(3, 3)))
    with pytest.raises(ValueError, match=r"\[CRF103\] .*\(2, 4\)"):
        crf.nll(potentials, torch.zeros(2, 4).long())
    with pytest.raises(ValueError, match=r"\[CRF103\] .*\(2, 3, 5\)"):
        crf.marginals(potentials, torch.ones(2, 3, 5).bool())


def test_the_guard_leaves_room_for_every_product():
    # The bounds on which the guard's proof rests, in nats and decades of float64.
    assert -probability_space.BUDGET * 1.5 > -700
    assert probability_space.FLOOR >= 1e-100
    largest_message = 10 ** (probability_space.GROWTH / 2.302)
    assert largest_message**2 / probability_space.SMALLEST_TOTAL < 1e300
