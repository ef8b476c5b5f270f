"""Losses beside the likelihood of the annotation: spans that are known to be wrong, and what an earlier model believed.

Both are sums of several log Z, so their gradients are sums of expected counts. They are computed in float64, because
what remains of them is a difference.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy
import torch
from thinc.util import get_array_module, torch2xp, xp2torch
from torch import Tensor

from . import crf
from .batching import cells_of_rows
from .inference import pad_tags, padded_buckets
from .types import AllowedTransitions, BoolArray, CRFPotentials, IntArray

# A span's probability is read as at most 1 minus this: beyond it, float64 has no digits left for the gradient.
_MARGIN = 1e-10
# Tokens times tags of the copies of documents that are computed at once.
_MAX_CELLS = 2**21


@dataclass
class SpanCases:
    """Ways in which tag paths can spell spans. The cases of a span exclude each other and add up to it.

    docs (IntArray): Document of each case.
        (n_cases,) int64
    spans (IntArray): Which span it is a case of.
        (n_cases,) int64
    cases (IntArray): Case of each restriction.
        (n_restrictions,) int64
    tokens (IntArray): Its token, counted in the document.
        (n_restrictions,) int64
    tags (BoolArray): Tags that the token may have.
        (n_restrictions, n_tags) bool
    """

    docs: IntArray
    spans: IntArray
    cases: IntArray
    tokens: IntArray
    tags: BoolArray


def negative_loss_and_gradient(
    potentials: CRFPotentials,
    cases: SpanCases,
    allowed: AllowedTransitions | None = None,
    possible_tags: BoolArray | None = None,
) -> tuple[numpy.ndarray, CRFPotentials]:
    """Find the loss of spans that are known to be no entities, -log(1 - P(span)), and its gradient.

    potentials (CRFPotentials): The scores of the batch.
    cases (SpanCases): How the spans can be spelt. Every case has a path.
    allowed (AllowedTransitions | None): Which moves are legal; None for all.
    possible_tags (BoolArray | None): Which tags a token may have; None for all.
        (n_tokens, n_tags) bool
    RETURNS (tuple): The loss of each document in nats, the sum over its spans, (n_docs,) float64, and the gradient of
        the sum of all.
    """
    parts = list(_portions(cases, potentials))
    docs = numpy.unique(cases.docs)
    log_z = numpy.zeros(len(potentials.lengths))
    whole = _copy_docs(potentials, docs, possible_tags)
    log_z[docs] = _log_partition(whole, allowed)
    log_prob = numpy.concatenate(
        [_log_partition(_restrict(potentials, part, possible_tags), allowed) for part in parts]
    )
    probability = numpy.exp(numpy.minimum(log_prob - log_z[cases.docs], 0.0))
    n_spans = int(cases.spans.max()) + 1
    of_span = numpy.bincount(cases.spans, probability, n_spans).clip(max=1.0 - _MARGIN)
    # d -log(1 - P) = P / (1 - P) d log P, shared out among the cases
    weights = probability / (1.0 - of_span[cases.spans])
    gradient = _Gradient(potentials)
    gradient.subtract_expected(whole, allowed, numpy.bincount(cases.docs, weights, len(log_z))[docs])
    for part, weight in zip(
        parts, numpy.split(weights, numpy.cumsum([len(part.docs) for part in parts])), strict=False
    ):
        gradient.subtract_expected(_restrict(potentials, part, possible_tags), allowed, -weight)
    doc_of_span = numpy.zeros(n_spans, dtype="int64")
    doc_of_span[cases.spans] = cases.docs
    return numpy.bincount(doc_of_span, -numpy.log1p(-of_span), len(log_z)), gradient.get()


def rehearsal_loss_and_gradient(
    potentials: CRFPotentials,
    earlier: CRFPotentials,
    allowed: AllowedTransitions | None = None,
    possible_tags: BoolArray | None = None,
) -> tuple[float, CRFPotentials]:
    """Find the Kullback-Leibler divergence of tag paths from an earlier model, and its gradient.

    Tags that the earlier model does not know are left out of the comparison and get no gradient.

    potentials (CRFPotentials): The scores of the batch.
    earlier (CRFPotentials): Those of the earlier model, for the first of the tags.
    allowed (AllowedTransitions | None): Which moves are legal; None for all.
    possible_tags (BoolArray | None): Which tags a token may have; None for all.
        (n_tokens, n_tags) bool
    RETURNS (tuple): The sum over documents of KL(earlier || present) in nats, and its gradient: expected counts of the
        present model minus those of the earlier one.
    """
    n_tags = earlier.emissions.shape[1]
    if allowed is not None:
        transitions, starts, ends = allowed
        allowed = AllowedTransitions(transitions[:n_tags, :n_tags], starts[:n_tags], ends[:n_tags])
    possible = None if possible_tags is None else numpy.ascontiguousarray(possible_tags[:, :n_tags])
    docs = numpy.arange(len(potentials.lengths))
    now, before = (_copy_docs(scores.first_tags(n_tags), docs, possible) for scores in (potentials, earlier))
    gradient, believed = _Gradient(potentials), _Gradient(before.potentials)
    log_z = believed.subtract_expected(before, allowed, -numpy.ones(len(docs)))
    new_log_z = gradient.subtract_expected(now, allowed, -numpy.ones(len(docs)))
    divergence = float(new_log_z.sum() - log_z.sum())
    for expected, old, new in zip(believed.parts, before.potentials.arrays, now.potentials.arrays, strict=True):
        divergence += float((expected * (xp2torch(old) - xp2torch(new))).sum())
    gradient.add(believed, -1.0)
    return max(divergence, 0.0), gradient.get()


@dataclass
class _Copies:
    """Documents of a batch in float64, one after another; a document may occur several times.

    potentials (CRFPotentials): Their scores.
    possible_tags (BoolArray | None): What is possible in them.
        (n_copied_tokens, n_tags) bool
    rows (IntArray): Which row of the batch each token was copied from.
        (n_copied_tokens,) int64
    """

    potentials: CRFPotentials
    possible_tags: BoolArray | None
    rows: IntArray


class _Gradient:
    """The sum of the gradients of several log Z, in float64."""

    def __init__(self, like: CRFPotentials) -> None:
        self.like = like
        self.parts = [torch.zeros_like(xp2torch(scores), dtype=torch.float64) for scores in like.arrays]

    def subtract_expected(
        self, copies: _Copies, allowed: AllowedTransitions | None, weights: numpy.ndarray
    ) -> numpy.ndarray:
        """Subtract the weighted expected counts. RETURNS: log Z of each document, (n_docs,) float64."""
        buckets, d_rows = [], []
        log_z = numpy.zeros(len(copies.potentials.lengths))
        n_tags = copies.potentials.emissions.shape[1]
        for bucket, padded in padded_buckets(copies.potentials, allowed):
            weight = torch.from_numpy(weights)[bucket.docs].to(padded.emissions.device)
            possible = pad_tags(copies.possible_tags, bucket, padded)
            log_part, expected = crf.log_partition_and_gradient(padded, possible, weight)
            log_z[bucket.docs.numpy()] = log_part.cpu().numpy()
            d_rows.append(expected.emissions.transpose(0, 1).flatten(0, 1))
            for total, part in zip(self.parts[1:], expected[1:], strict=True):
                total[tuple(slice(n_tags) for _ in part.shape)] -= part
            buckets.append(bucket)
        if buckets:
            cells = cells_of_rows(buckets, len(copies.rows)).to(self.parts[0].device)
            d_emissions = torch.cat(d_rows).index_select(0, cells)
            rows = torch.from_numpy(copies.rows).to(d_emissions.device)
            self.parts[0][:, :n_tags].index_add_(0, rows, d_emissions, alpha=-1)
        return log_z

    def add(self, other: "_Gradient", factor: float) -> None:
        """Add another one, which may have fewer tags."""
        for total, part in zip(self.parts, other.parts, strict=True):
            total[tuple(slice(size) for size in part.shape)] += factor * part

    def get(self) -> CRFPotentials:
        """Return the sum, in the type of the scores."""
        d_emissions, *d_moves = (
            cast(Any, torch2xp(part.to(xp2torch(scores).dtype)))
            for part, scores in zip(self.parts, self.like.arrays, strict=True)
        )
        return CRFPotentials(d_emissions, self.like.lengths, *d_moves)


def _log_partition(copies: _Copies, allowed: AllowedTransitions | None) -> numpy.ndarray:
    log_z = numpy.zeros(len(copies.potentials.lengths))
    for bucket, padded in padded_buckets(copies.potentials, allowed):
        log_part: Tensor = crf.log_partition(padded, pad_tags(copies.possible_tags, bucket, padded))
        log_z[bucket.docs.numpy()] = log_part.cpu().numpy()
    return log_z


def _copy_docs(potentials: CRFPotentials, docs: IntArray, possible_tags: BoolArray | None) -> _Copies:
    lengths = potentials.lengths[docs]
    first_rows = (numpy.cumsum(potentials.lengths) - potentials.lengths)[docs]
    first_copies = numpy.cumsum(lengths) - lengths
    rows = numpy.arange(lengths.sum()) + numpy.repeat(first_rows - first_copies, lengths)
    xp = get_array_module(potentials.emissions)
    emissions, *moves = (scores.astype("float64") for scores in potentials.arrays)
    copied = CRFPotentials(emissions[xp.asarray(rows)], lengths, *moves)
    return _Copies(copied, None if possible_tags is None else possible_tags[rows], rows)


def _restrict(potentials: CRFPotentials, cases: SpanCases, possible_tags: BoolArray | None) -> _Copies:
    """Copy the document of each case and leave only the paths of the case."""
    copies = _copy_docs(potentials, cases.docs, possible_tags)
    lengths = copies.potentials.lengths
    if copies.possible_tags is None:
        copies.possible_tags = numpy.ones(copies.potentials.emissions.shape, dtype=bool)
    offsets = numpy.cumsum(lengths) - lengths
    numpy.logical_and.at(copies.possible_tags, offsets[cases.cases] + cases.tokens, cases.tags)
    return copies


def _portions(cases: SpanCases, potentials: CRFPotentials) -> Iterator[SpanCases]:
    """Cut many cases into portions that fit into memory."""
    n_cells = potentials.lengths[cases.docs] * potentials.emissions.shape[1]
    portion = (numpy.cumsum(n_cells) - n_cells) // _MAX_CELLS
    for number in numpy.unique(portion):
        of_case = portion == number
        of_restriction = of_case[cases.cases]
        yield SpanCases(
            cases.docs[of_case],
            cases.spans[of_case],
            cases.cases[of_restriction] - int(numpy.argmax(of_case)),
            cases.tokens[of_restriction],
            cases.tags[of_restriction],
        )
