"""Figures of calibration on cases that can be worked out by hand, and the scaling on cases where it is known."""

import math

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_bilstm_crf.report.calibration import (
    fit_scaling,
    measure_auroc,
    measure_by_label,
    measure_log_loss,
    measure_reliability,
)
from spacy_bilstm_crf.scaling import Scaling


def test_reliability_by_hand():
    probabilities = numpy.array([0.9, 0.1, 0.8, 0.2])
    is_right = numpy.array([True, False, False, True])
    found = measure_reliability(probabilities, is_right, n_bins=2)
    assert [(part.prob, part.share_right, part.n_entities) for part in found.bins] == [
        (pytest.approx(0.15), 0.5, 2),
        (pytest.approx(0.85), 0.5, 2),
    ]
    assert found.ece == pytest.approx(0.35)
    assert found.brier == pytest.approx((0.01 + 0.01 + 0.64 + 0.64) / 4)
    assert found.log_loss == pytest.approx(-(2 * math.log(0.9) + 2 * math.log(0.2)) / 4)
    assert found.n_entities == 4


def test_bins_hold_equally_many():
    found = measure_reliability(numpy.linspace(0, 1, 100), numpy.ones(100, dtype=bool), n_bins=15)
    assert len(found.bins) == 15
    assert {part.n_entities for part in found.bins} == {6, 7}


def test_without_entities_there_are_no_figures():
    none = numpy.zeros(0)
    found = measure_reliability(none, none.astype(bool))
    assert math.isnan(found.ece)
    assert found.bins == ()
    assert math.isnan(measure_auroc(none, none.astype(bool)))


@given(st.lists(st.tuples(st.sampled_from([0.1, 0.4, 0.5, 0.9]), st.booleans()), min_size=2, max_size=30))
def test_auroc_is_the_share_of_pairs_in_order(rows):
    probabilities, is_right = numpy.array([p for p, _ in rows]), numpy.array([right for _, right in rows])
    pairs = [(p > q) + 0.5 * (p == q) for p in probabilities[is_right] for q in probabilities[~is_right]]
    if pairs:
        assert measure_auroc(probabilities, is_right) == pytest.approx(sum(pairs) / len(pairs))
    else:
        assert math.isnan(measure_auroc(probabilities, is_right))


def make_outcomes(true_temperature=1.0, true_biases=(0.0,), n=4000):
    """Entities whose log odds are too large by a factor, and too small by what their label says."""
    rng = numpy.random.default_rng(0)
    log_odds = rng.normal(1.0, 2.0, n)
    labels = rng.integers(len(true_biases), size=n)
    shifted = log_odds / true_temperature + numpy.array(true_biases)[labels]
    is_right = rng.random(n) < 1 / (1 + numpy.exp(-shifted))
    return lambda temperature: 1 / (1 + numpy.exp(-log_odds / temperature)), labels, is_right, len(true_biases)


@pytest.mark.parametrize("true_temperature", [0.5, 2.5])
@pytest.mark.parametrize("true_biases", [(0.0,), (1.0, -1.5, 0.0)])
def test_the_scaling_is_found(true_temperature, true_biases):
    found = fit_scaling(*make_outcomes(true_temperature, true_biases))
    assert found.helps
    assert found.scaling.temperature == pytest.approx(true_temperature, rel=0.1)
    assert found.scaling.biases == pytest.approx(true_biases, abs=0.2)
    assert found.after.ece < found.before.ece
    assert found.after.log_loss < found.before.log_loss


def test_a_model_that_is_calibrated_is_left_alone():
    found = fit_scaling(*make_outcomes(true_biases=(0.0, 0.0)))
    assert not found.helps
    assert found.scaling == Scaling()
    assert found.fitted.temperature == pytest.approx(1.0, rel=0.1)
    assert found.fitted.biases == pytest.approx([0.0, 0.0], abs=0.2)
    assert found.after is found.before


def test_the_present_scaling_is_where_it_starts():
    outcomes = make_outcomes(2.0, (0.5, -0.5))
    assert fit_scaling(*outcomes, present=Scaling(2.0)).helps
    assert not fit_scaling(*outcomes, present=Scaling(2.0, (0.5, -0.5))).helps


@pytest.mark.parametrize("prob", [0.0, 1.0])
def test_certain_and_wrong_entities_do_not_run_away_with_the_bias(prob):
    probabilities = numpy.full(400, prob)
    found = fit_scaling(lambda temperature: probabilities, numpy.zeros(400, dtype=int), probabilities < 0.5, 1)
    assert abs(found.fitted.biases[0]) < 40


def test_few_entities_of_a_label_say_little_of_it():
    score, labels, is_right, _ = make_outcomes(2.5)
    labels = labels.copy()
    rare = numpy.flatnonzero(~is_right)[:2]
    labels[rare] = 1
    # Two wrong ones say little, and a label without any entity nothing.
    found = fit_scaling(score, labels, is_right, 3)
    assert -1.5 < found.scaling.biases[1] < 0.0
    assert found.scaling.biases[2] == 0.0


def test_certain_and_wrong_is_expensive_but_finite():
    assert 20 < measure_log_loss(numpy.array([1.0]), numpy.array([False])) < 40


def test_each_label_has_its_own_figures():
    probabilities, is_right = numpy.array([0.9, 0.6, 0.7]), numpy.array([True, False, True])
    found = measure_by_label(probabilities, is_right, ["B", "A", "B"])
    assert list(found) == ["A", "B"]
    assert [part.n_entities for part in found.values()] == [1, 2]
    assert found["A"].brier == pytest.approx(0.36)
