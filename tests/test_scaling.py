"""Biases of labels: what they do to odds, and what is stored of them."""

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_bilstm_crf.scaling import AS_IT_IS, Scaling, shift_log_odds


@given(
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20),
    st.floats(-5.0, 5.0),
)
def test_a_shift_adds_to_the_log_odds(probabilities, nats):
    before = numpy.array(probabilities)
    after = shift_log_odds(before, nats)
    assert ((after >= 0.0) & (after <= 1.0)).all()
    assert (after[before == 0.0] == 0.0).all()
    assert (after[before == 1.0] == 1.0).all()
    open_ones = (before > 1e-9) & (before < 1 - 1e-9)
    p, q = before[open_ones], after[open_ones]
    assert numpy.log(q / (1 - q)) - numpy.log(p / (1 - p)) == pytest.approx(nats, abs=1e-4)


@given(st.floats(0.001, 0.999), st.lists(st.floats(-3.0, 3.0), min_size=1, max_size=4), st.floats(0.01, 1.0))
def test_what_lies_below_the_least_stays_below_the_threshold(prob, biases, threshold):
    scaling = Scaling(1.0, tuple(biases))
    least = scaling.least_unshifted(threshold)
    after = scaling.shift(numpy.full(len(biases), prob), numpy.arange(len(biases)))
    if prob < least - 1e-9:
        assert (after < threshold).all()
    elif prob > least + 1e-9:
        assert (after > threshold).any() or threshold == 1.0


def test_biases_are_stored_by_label():
    scaling = Scaling.of_labels(2.0, {"B": 0.5, "gone": 1.0}, ["A", "B"])
    assert scaling.temperature == 2.0
    assert scaling.by_label(["A", "B"]) == {"A": 0.0, "B": 0.5}
    assert Scaling.of_labels(1.0, {}, ["A"]) == AS_IT_IS
    assert AS_IT_IS.by_label(["A"]) == {}


def test_without_biases_nothing_is_shifted():
    probabilities = numpy.array([0.2, 0.9])
    assert AS_IT_IS.shift(probabilities, numpy.array([0, 0])) is probabilities
    assert AS_IT_IS.least_unshifted(0.3) == 0.3
