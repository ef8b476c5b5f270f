"""What makes the probabilities of a trained model mean what they say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy

from .types import FloatArray, IntArray


@dataclass(frozen=True)
class Scaling:
    """A temperature for all scores, and a bias for each label.

    temperature (float): By which all scores are divided; 1 for none.
    biases (tuple[float, ...] | None): By how much, in nats, the log odds of an entity of each label are raised after
        that. None for not at all.
    REFERENCE: Guo et al. 2017, equation 9; Kuleshov & Liang 2015, who calibrate single events of a structure
    """

    temperature: float = 1.0
    biases: tuple[float, ...] | None = None

    @classmethod
    def of_labels(cls, temperature: float, biases: Mapping[str, float], labels: Sequence[str]) -> "Scaling":
        """Make a scaling of what is stored by label.

        temperature (float): The temperature.
        biases (Mapping[str, float]): The biases. A label that is not there has none.
        labels (Sequence[str]): The labels.
        RETURNS (Scaling): The scaling.
        """
        return cls(temperature, tuple(biases.get(label, 0.0) for label in labels) if biases else None)

    def by_label(self, labels: Sequence[str]) -> dict[str, float]:
        """Return the biases by label.

        labels (Sequence[str]): The labels.
        RETURNS (dict[str, float]): The bias of each; empty if there are none.
        """
        return {} if self.biases is None else dict(zip(labels, self.biases, strict=True))

    def shift(self, probabilities: FloatArray, labels: IntArray) -> FloatArray:
        """Raise the log odds of entities by the biases of their labels.

        probabilities (FloatArray): Probabilities.
            (n_entities,) float64
        labels (IntArray): Position of the label of each.
            (n_entities,) int64
        RETURNS (FloatArray): Other probabilities. The order of those of one label stays what it is.
            (n_entities,) float64
        """
        if self.biases is None:
            return probabilities
        return shift_log_odds(probabilities, numpy.array(self.biases)[labels])

    def least_unshifted(self, threshold: float) -> float:
        """Find what has to be looked at to miss no entity that is at least so probable.

        threshold (float): The least probability after the shift.
        RETURNS (float): The least one before.
        """
        if self.biases is None:
            return threshold
        return float(shift_log_odds(numpy.array([threshold]), -max(self.biases))[0])


AS_IT_IS = Scaling()


def shift_log_odds(probabilities: FloatArray, nats: FloatArray | float) -> FloatArray:
    """Add to the log odds of events. What is certain stays so.

    probabilities (FloatArray): Probabilities.
        (n,) float64
    nats (FloatArray | float): What is added.
        (n,) float64
    RETURNS (FloatArray): The probabilities with the new log odds.
        (n,) float64
    """
    # p e^b / (p e^b + (1 - p))
    raised = probabilities * numpy.exp(nats)
    return raised / (raised + (1.0 - probabilities))
