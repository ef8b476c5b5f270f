"""From potentials to probabilities of entities, paths and annotations, for batches as Thinc holds them.

Positions are rows of the batch, whose documents stand one after another.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy
import torch
from torch import Tensor

from . import crf
from .batching import Bucket
from .inference import pad_tags, padded_buckets
from .types import AllowedTransitions, BoolArray, CRFPotentials, FloatArray, IntArray


@dataclass
class LabelledSpans:
    """Spans of rows, which may overlap.

    starts (IntArray): First row.
        (n_spans,) int64
    ends (IntArray): Row after the last one.
        (n_spans,) int64
    labels (IntArray): Position of the label.
        (n_spans,) int64
    """

    starts: IntArray
    ends: IntArray
    labels: IntArray

    def __len__(self) -> int:
        """RETURNS (int): Number of spans."""
        return len(self.starts)


@dataclass
class SpanRules:
    """How tag paths are read as spans.

    joins (BoolArray): True for moves whose second token belongs to the span of the first.
        (n_tags, n_tags) bool
    first_tags (IntArray): First tag of each label; the others follow it.
        (n_labels,) int64
    width (int): Number of tags of a label.
    borders (BoolArray): Tokens that belong to no span of the token before, whatever their tags are.
        (n_tokens,) bool
    """

    joins: BoolArray
    first_tags: IntArray
    width: int
    borders: BoolArray


@dataclass
class Distribution:
    """The distribution over the tag paths of a batch, from which everything here is computed.

    potentials (CRFPotentials): The scores.
    allowed (AllowedTransitions | None): Which moves are legal; None for all.
    possible_tags (BoolArray | None): Which tags a token may have; None for all.
        (n_tokens, n_tags) bool
    """

    potentials: CRFPotentials
    allowed: AllowedTransitions | None = None
    possible_tags: BoolArray | None = None

    @property
    def n_docs(self) -> int:
        """RETURNS (int): Number of documents."""
        return len(self.potentials.lengths)

    @property
    def n_tokens(self) -> int:
        """RETURNS (int): Number of tokens."""
        return len(self.potentials.emissions)

    @property
    def offsets(self) -> IntArray:
        """RETURNS (IntArray): First row of each document. (n_docs,) int64."""
        return numpy.cumsum(self.potentials.lengths) - self.potentials.lengths

    def with_temperature(self, temperature: float) -> "Distribution":
        """Return the distribution with all scores divided by a temperature, which leaves the best path what it is.

        temperature (float): Greater than 0; above 1 for less certainty.
        RETURNS (Distribution): The other distribution.
        REFERENCE: Guo et al. 2017, equation 9
        """
        if temperature == 1.0:
            return self
        scores = self.potentials
        scaled = CRFPotentials(
            scores.emissions / temperature,
            scores.lengths,
            scores.transitions / temperature,
            scores.start_transitions / temperature,
            scores.end_transitions / temperature,
        )
        return Distribution(scaled, self.allowed, self.possible_tags)


def span_probabilities(
    distribution: Distribution,
    spans: LabelledSpans,
    rules: SpanRules,
    *,
    earliest: IntArray | None = None,
    latest: IntArray | None = None,
) -> FloatArray:
    """Compute the exact probability that each span is read from the tag path: these tokens, this label, no more.

    Only documents that hold one of the spans are looked at, each once.

    distribution (Distribution): The distribution over tag paths.
    spans (LabelledSpans): The spans.
    rules (SpanRules): How tag paths are read.
    earliest (IntArray | None): First row at which a span may begin, where what is before `starts` is cut off after
        reading. None for `starts`.
        (n_spans,) int64
    latest (IntArray | None): Likewise the last end that is cut back to `ends`.
        (n_spans,) int64
    RETURNS (FloatArray): Probabilities.
        (n_spans,) float64
    """
    probabilities = numpy.zeros(len(spans))
    docs = numpy.searchsorted(numpy.cumsum(distribution.potentials.lengths), spans.starts, side="right")
    in_use = numpy.bincount(docs, minlength=distribution.n_docs) > 0
    earliest = spans.starts if earliest is None else earliest
    latest = spans.ends if latest is None else latest
    for bucket, padded in padded_buckets(distribution.potentials, distribution.allowed, [in_use]):
        place = numpy.full(distribution.n_docs, -1)
        place[bucket.docs.numpy()] = numpy.arange(len(bucket.docs))
        index = numpy.flatnonzero(place[docs] >= 0)
        offsets = distribution.offsets[docs[index]]
        device = padded.emissions.device

        def move(array: IntArray, device: torch.device = device) -> Tensor:
            return torch.from_numpy(array).to(device)

        segments = crf.Segments(
            move(place[docs[index]]),
            move(spans.starts[index] - offsets),
            move(spans.ends[index] - offsets),
            move(rules.first_tags[spans.labels[index]]),
        )
        log_probs = crf.segment_log_prob_any_tags(
            padded,
            segments,
            _pad_rules(rules, bucket, device),
            earliest=move(earliest[index] - offsets),
            latest=move(latest[index] - offsets),
            possible_tags=pad_tags(distribution.possible_tags, bucket, padded),
        )
        probabilities[index] = log_probs.exp().cpu().numpy()
    return probabilities


def likely_spans(distribution: Distribution, threshold: float, rules: SpanRules) -> tuple[LabelledSpans, FloatArray]:
    """Find all spans that are read from the tag path with at least this probability.

    distribution (Distribution): The distribution over tag paths.
    threshold (float): The least probability, greater than 0.
    rules (SpanRules): How tag paths are read.
    RETURNS (tuple): The spans, by start, end and label, and their probabilities.
        (n_spans,) float64
    """
    parts = [numpy.zeros((3, 0), dtype="int64")]
    log_probs = [numpy.zeros(0)]
    for bucket, padded in padded_buckets(distribution.potentials, distribution.allowed):
        device = padded.emissions.device
        segments, scores = crf.likely_segments(
            padded,
            threshold,
            torch.from_numpy(rules.first_tags).to(device),
            _pad_rules(rules, bucket, device),
            pad_tags(distribution.possible_tags, bucket, padded),
        )
        docs, starts, ends, first_tags = (part.cpu().numpy() for part in segments)
        offsets = distribution.offsets[bucket.docs.numpy()[docs]]
        parts.append(numpy.stack([starts + offsets, ends + offsets, (first_tags - rules.first_tags[0]) // rules.width]))
        log_probs.append(scores.cpu().numpy())
    starts, ends, labels = numpy.concatenate(parts, axis=1)
    order = numpy.lexsort((labels, ends, starts))
    return LabelledSpans(starts[order], ends[order], labels[order]), numpy.exp(numpy.concatenate(log_probs)[order])


def _pad_rules(rules: SpanRules, bucket: Bucket, device: torch.device) -> crf.SegmentRules:
    borders = torch.from_numpy(rules.borders)[bucket.rows.T]  # (n_docs, n_steps)
    return crf.SegmentRules(torch.from_numpy(rules.joins).to(device), rules.width, borders.to(device))


def n_best_paths(distribution: Distribution, n: int) -> tuple[FloatArray, IntArray]:
    """Find the n most probable tag paths of each document.

    distribution (Distribution): The distribution over tag paths.
    n (int): Number of paths.
    RETURNS (tuple): Their log probabilities in nats, most probable first, (n_docs, n) float64, and the paths,
        (n, n_tokens) int64. Where a document has fewer, the rest is -inf and -1.
    """
    log_probs = numpy.full((distribution.n_docs, n), -numpy.inf)
    log_probs[distribution.potentials.lengths == 0, 0] = 0.0
    paths = numpy.full((n, distribution.n_tokens), -1, dtype="int64")
    for bucket, padded in padded_buckets(distribution.potentials, distribution.allowed):
        possible = pad_tags(distribution.possible_tags, bucket, padded)
        scores, tags = crf.n_best(padded, n, possible)
        scores = (scores - crf.log_partition(padded, possible).unsqueeze(1)).clamp(max=0.0)
        log_probs[bucket.docs.numpy()] = scores.cpu().numpy()
        is_token = torch.arange(tags.shape[2]) < bucket.lengths.unsqueeze(1)  # (n_docs, n_steps)
        paths[:, bucket.rows.T[is_token].numpy()] = tags.cpu().transpose(0, 1)[:, is_token].numpy()
    return log_probs, paths


def allowed_log_probs(distribution: Distribution, allowed_tags: BoolArray) -> FloatArray:
    """Compute the log probability that the tag path of each document lies within what is allowed.

    distribution (Distribution): The distribution over tag paths.
    allowed_tags (BoolArray): Which tags are.
        (n_tokens, n_tags) bool
    RETURNS (FloatArray): Log probabilities in nats, -inf where no path is allowed.
        (n_docs,) float64
    """

    def score(padded: crf.Potentials, possible: Tensor | None, bucket: Bucket) -> Tensor:
        within = cast(Tensor, pad_tags(allowed_tags, bucket, padded))
        return crf.allowed_log_prob(padded, within, possible)

    return _for_each_doc(distribution, score)


def pair_marginals(distribution: Distribution) -> FloatArray:
    """Compute the probability of each pair of tags at a token and the one before it.

    distribution (Distribution): The distribution over tag paths.
    RETURNS (FloatArray): Probabilities of [tag before, tag]; 0 at the first token of a document.
        (n_tokens, n_tags, n_tags) float64
    """
    n_tags = distribution.potentials.emissions.shape[1]
    probabilities = numpy.zeros((distribution.n_tokens, n_tags, n_tags))
    for bucket, padded in padded_buckets(distribution.potentials, distribution.allowed):
        pairs = crf.pairwise_marginals(padded, pad_tags(distribution.possible_tags, bucket, padded)).cpu()
        is_later = torch.arange(1, len(bucket.rows)) < bucket.lengths.unsqueeze(1)  # (n_docs, n_steps - 1)
        probabilities[bucket.rows.T[:, 1:][is_later].numpy()] = pairs[is_later].numpy()
    return probabilities


def entropies(distribution: Distribution) -> FloatArray:
    """Compute how much the model leaves open about the tag path of each document.

    distribution (Distribution): The distribution over tag paths.
    RETURNS (FloatArray): Entropies in nats.
        (n_docs,) float64
    """
    return _for_each_doc(distribution, lambda padded, possible, _: crf.entropy(padded, possible))


def _for_each_doc(
    distribution: Distribution, function: Callable[[crf.Potentials, Tensor | None, Bucket], Tensor]
) -> FloatArray:
    # A document without tokens has one path, which is certain: 0 for everything in nats.
    result = numpy.zeros(distribution.n_docs)
    for bucket, padded in padded_buckets(distribution.potentials, distribution.allowed):
        possible = pad_tags(distribution.possible_tags, bucket, padded)
        result[bucket.docs.numpy()] = function(padded, possible, bucket).cpu().numpy()
    return result
