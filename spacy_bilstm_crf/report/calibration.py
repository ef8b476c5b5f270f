"""Whether probabilities mean what they say, and a scaling that makes them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy

from ..scaling import AS_IT_IS, Scaling, shift_log_odds
from ..types import BoolArray, FloatArray, IntArray

N_BINS = 15
_LARGEST_TEMPERATURE = 10.0
_TOLERANCE = 0.005
# How far, in nats, biases of labels are expected to lie from 0.
_PRIOR_DEVIATION = 1.0
_LARGEST_STEP = 2.0
_CERTAIN = 1e-12
_N_STEPS = 100


@dataclass(frozen=True)
class Bin:
    """Entities of similar probability.

    prob (float): Their mean probability.
    share_right (float): How many of them are right.
    n_entities (int): Their number.
    """

    prob: float
    share_right: float
    n_entities: int


@dataclass(frozen=True)
class Reliability:
    """How well probabilities agree with outcomes.

    ece (float): Expected calibration error: the mean distance between probability and share of right ones over bins.
    brier (float): Mean squared distance between probability and outcome.
    log_loss (float): Mean negative log likelihood of the outcomes, in nats.
    bins (tuple[Bin, ...]): Bins of nearly equal size, least probable first.
    """

    ece: float
    brier: float
    log_loss: float
    bins: tuple[Bin, ...]

    @property
    def n_entities(self) -> int:
        """RETURNS (int): Number of entities."""
        return sum(part.n_entities for part in self.bins)


def measure_reliability(probabilities: FloatArray, is_right: BoolArray, n_bins: int = N_BINS) -> Reliability:
    """Compare probabilities with outcomes.

    probabilities (FloatArray): Probabilities of entities.
        (n_entities,) float64
    is_right (BoolArray): Whether they are right.
        (n_entities,) bool
    n_bins (int): Number of bins of nearly equal size.
    RETURNS (Reliability): What was found; NaN without entities.
    REFERENCE: Nguyen & O'Connor 2015, adaptive binning; Brier 1950
    """
    n = len(probabilities)
    if not n:
        return Reliability(math.nan, math.nan, math.nan, ())
    order = numpy.argsort(probabilities, kind="stable")
    bins = tuple(
        Bin(float(probabilities[part].mean()), float(is_right[part].mean()), len(part))
        for part in numpy.array_split(order, n_bins)
        if len(part)
    )
    ece = sum(part.n_entities * abs(part.prob - part.share_right) for part in bins) / n
    brier = float(((probabilities - is_right) ** 2).mean())
    return Reliability(ece, brier, measure_log_loss(probabilities, is_right), bins)


def measure_log_loss(probabilities: FloatArray, is_right: BoolArray) -> float:
    """Compute the mean negative log likelihood of outcomes.

    probabilities (FloatArray): Probabilities of entities.
        (n_entities,) float64
    is_right (BoolArray): Whether they are right.
        (n_entities,) bool
    RETURNS (float): In nats.
    """
    given = numpy.where(is_right, probabilities, 1.0 - probabilities)
    return float(-numpy.log(numpy.maximum(given, _CERTAIN)).mean())


def measure_auroc(probabilities: FloatArray, is_right: BoolArray) -> float:
    """Compute how often a right entity is more probable than a wrong one; ties count half.

    probabilities (FloatArray): Probabilities of entities.
        (n_entities,) float64
    is_right (BoolArray): Whether they are right.
        (n_entities,) bool
    RETURNS (float): Area under the ROC curve; NaN if all are right, or all wrong.
    REFERENCE: Hanley & McNeil 1982
    """
    n_right = int(is_right.sum())
    n_wrong = len(is_right) - n_right
    if not n_right or not n_wrong:
        return math.nan
    _, index, counts = numpy.unique(probabilities, return_inverse=True, return_counts=True)
    mean_ranks = numpy.cumsum(counts) - (counts - 1) / 2
    rank_sum = float(mean_ranks[index][is_right].sum())
    return (rank_sum - n_right * (n_right + 1) / 2) / (n_right * n_wrong)


@dataclass(frozen=True)
class Calibration:
    """A fitted scaling and what it does.

    scaling (Scaling): What is to be used: what was fitted if it helps, else what is in use.
    fitted (Scaling): The one of the least log loss and prior.
    before (Reliability): With the scaling in use.
    after (Reliability): With the one to be used.
    """

    scaling: Scaling
    fitted: Scaling
    before: Reliability
    after: Reliability

    @property
    def helps(self) -> bool:
        """RETURNS (bool): Whether the model gets another scaling than it has."""
        return self.after is not self.before


def fit_scaling(
    score: Callable[[float], FloatArray],
    labels: IntArray,
    is_right: BoolArray,
    n_labels: int,
    present: Scaling = AS_IT_IS,
    n_bins: int = N_BINS,
) -> Calibration:
    """Find the temperature and the biases of labels that fit outcomes best, and keep the present ones if as good.

    Biases have a normal prior around 0, so that few entities of a label move it little.

    score (Callable): Gives the probabilities of the entities at a temperature, without biases, (n_entities,) float64.
    labels (IntArray): The position of the label of each.
        (n_entities,) int64
    is_right (BoolArray): Whether the entities are right.
        (n_entities,) bool
    n_labels (int): Number of labels.
    present (Scaling): The scaling in use.
    n_bins (int): Number of bins for the calibration error.
    RETURNS (Calibration): The scaling. It is a new one only if the log loss falls by more than chance explains and the
        calibration error does not grow.
    REFERENCE: Platt 1999; Guo et al. 2017
    """

    def fit(log_temperature: float) -> tuple[float, Scaling]:
        temperature = math.exp(log_temperature)
        probabilities = score(temperature)
        biases = _fit_biases(probabilities, labels, is_right, n_labels)
        scaling = Scaling(temperature, tuple(biases.tolist()))
        loss = len(labels) * measure_log_loss(scaling.shift(probabilities, labels), is_right)
        return loss + float((biases**2).sum()) / (2 * _PRIOR_DEVIATION**2), scaling

    bound = math.log(_LARGEST_TEMPERATURE)
    _, fitted = fit(_find_minimum(lambda at: fit(at)[0], -bound, bound, _TOLERANCE))
    before = measure_reliability(present.shift(score(present.temperature), labels), is_right, n_bins)
    after = measure_reliability(fitted.shift(score(fitted.temperature), labels), is_right, n_bins)
    gain = 2 * len(is_right) * (before.log_loss - after.log_loss)
    if gain > _largest_by_chance(1 + len(numpy.unique(labels))) and after.ece <= before.ece:
        return Calibration(fitted, fitted, before, after)
    return Calibration(present, fitted, before, before)


def _fit_biases(probabilities: FloatArray, labels: IntArray, is_right: BoolArray, n_labels: int) -> FloatArray:
    """Find the biases of the greatest posterior, under a normal prior, by Newton's method. (n_labels,) float64."""
    # What is certain has no odds to be raised.
    probabilities = numpy.clip(probabilities, _CERTAIN, 1.0 - _CERTAIN)
    biases = numpy.zeros(n_labels)
    for _ in range(_N_STEPS):
        shifted = shift_log_odds(probabilities, biases[labels])
        slope = numpy.bincount(labels, shifted - is_right, n_labels) + biases / _PRIOR_DEVIATION**2
        curvature = numpy.bincount(labels, shifted * (1.0 - shifted), n_labels) + 1.0 / _PRIOR_DEVIATION**2
        step = numpy.clip(slope / curvature, -_LARGEST_STEP, _LARGEST_STEP)
        biases -= step
        if numpy.abs(step).max(initial=0.0) < 1e-6:
            break
    return biases


def _largest_by_chance(n_parameters: int) -> float:
    """Twice the gain in log likelihood that so many parameters reach by chance in 1 of 20 cases.

    REFERENCE: Wilson & Hilferty 1931, on the quantiles of the chi-squared distribution
    """
    spread = 2 / (9 * n_parameters)
    return float(n_parameters * (1 - spread + 1.645 * math.sqrt(spread)) ** 3)


def _find_minimum(function: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    """Find the minimum of a function with one valley by golden sections (Kiefer 1953)."""
    ratio = (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > tolerance:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = function(right)
    return (low + high) / 2


def measure_by_label(
    probabilities: FloatArray, is_right: BoolArray, labels: Sequence[str], n_bins: int = N_BINS
) -> dict[str, Reliability]:
    """Compare probabilities with outcomes for each label.

    probabilities (FloatArray): Probabilities of entities.
        (n_entities,) float64
    is_right (BoolArray): Whether they are right.
        (n_entities,) bool
    labels (Sequence[str]): Their labels.
    n_bins (int): Number of bins.
    RETURNS (dict[str, Reliability]): By label, sorted.
    """
    names = numpy.array(labels, dtype=object)
    return {
        label: measure_reliability(probabilities[names == label], is_right[names == label], n_bins)
        for label in sorted(set(labels))
    }
