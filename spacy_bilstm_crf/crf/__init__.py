"""Linear-chain CRF as pure torch functions: scores, losses with closed-form gradients, marginals and decoding.

Nothing here has parameters, keeps state or builds an autograd graph. Everything works on `Potentials`: padded batches,
batch first, in which a forbidden move is -inf and what lies in the padding of the emissions never matters.

potentials: the data that goes in and comes out
lattice: the potentials with START and END, on which the recursions run
probability_space: forward-backward as scaled float64 matrix products, the fast route, with the guard that says when
    it may not be trusted
log_space: forward-backward in log space, the route for whatever the guard turns away and devices without float64
expectations: picks the route per document
losses, marginals, decoding: what callers use
"""

from .decoding import n_best, viterbi
from .losses import (
    log_partition,
    log_partition_and_gradient,
    marginal_nll,
    marginal_nll_and_gradient,
    nll,
    nll_and_gradient,
    path_log_prob,
    path_score,
)
from .marginals import forward_backward, marginals, pairwise_marginals, segment_log_prob
from .potentials import Gradient, Potentials, constrain
from .segments import SegmentRules, Segments, likely_segments, segment_log_prob_any_tags
from .uncertainty import allowed_log_prob, entropy

__all__ = [
    "Gradient",
    "Potentials",
    "SegmentRules",
    "Segments",
    "allowed_log_prob",
    "constrain",
    "entropy",
    "forward_backward",
    "likely_segments",
    "log_partition",
    "log_partition_and_gradient",
    "marginal_nll",
    "marginal_nll_and_gradient",
    "marginals",
    "n_best",
    "nll",
    "nll_and_gradient",
    "pairwise_marginals",
    "path_log_prob",
    "path_score",
    "segment_log_prob",
    "segment_log_prob_any_tags",
    "viterbi",
]
