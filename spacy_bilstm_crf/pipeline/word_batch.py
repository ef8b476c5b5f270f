"""A batch of documents with the distribution over its tag paths, and what can be read from it about words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy
from spacy.tokens import Doc

from ..errors import Errors
from ..inference import decode
from ..probabilities import Distribution, LabelledSpans, SpanRules, n_best_paths, span_probabilities
from ..tag_scheme import TagScheme
from ..types import FloatArray, IntArray


@dataclass
class Words:
    """Words of a batch, in the rows of its tokens.

    starts (IntArray): First token.
        (n_words,) int64
    ends (IntArray): Token behind the last one.
        (n_words,) int64
    docs (IntArray): Position of the document.
        (n_words,) int64
    """

    starts: IntArray
    ends: IntArray
    docs: IntArray

    def starts_by_doc(self, offsets: IntArray) -> list[IntArray]:
        """Split the starts among the documents.

        offsets (IntArray): First row of each document.
            (n_docs,) int64
        RETURNS (list[IntArray]): For each document, the index of the first token of each word.
            (n_words,) int64
        """
        splits = numpy.searchsorted(self.docs, numpy.arange(1, len(offsets)))
        return numpy.split(self.starts - offsets[self.docs], splits)[: len(offsets)]


@dataclass
class Segmentation:
    """A way to cut a text into words.

    words (tuple[str, ...]): The words.
    log_prob (float): Its log probability, in nats.
    """

    words: tuple[str, ...]
    log_prob: float

    @property
    def prob(self) -> float:
        """RETURNS (float): Its probability."""
        return math.exp(self.log_prob)


@dataclass
class WordBatch:
    """What the model says of the words of a batch. Positions are rows of the batch.

    scheme (TagScheme): The tag scheme.
    distribution (Distribution): The distribution over tag paths.
    """

    scheme: TagScheme
    distribution: Distribution

    def best_words(self) -> Words:
        """Find the words of the best tag path of each document.

        RETURNS (Words): The words, in order.
        """
        paths = decode(self.distribution.potentials, self.distribution.allowed, self.distribution.possible_tags)
        return self.read_words(paths)

    def read_words(self, tag_ids: IntArray) -> Words:
        """Read words from a tag path for each document.

        tag_ids (IntArray): Tag ids; tokens of -1 are in no word.
            (n_tokens,) int64
        RETURNS (Words): The words, in order.
        """
        docs, starts, ends, _ = self.scheme.ids_to_spans(tag_ids, self.distribution.potentials.lengths)
        offsets = self.distribution.offsets[docs]
        return Words(starts + offsets, ends + offsets, docs)

    def probabilities(self, words: Words) -> FloatArray:
        """Compute the exact probability of words: that both borders are there, and none between.

        words (Words): The words.
        RETURNS (FloatArray): The probabilities.
            (n_words,) float64
        """
        _, continues, goes_on, _ = self.scheme.tag_rules(1)
        lengths = self.distribution.potentials.lengths
        borders = numpy.zeros(self.distribution.n_tokens, dtype=bool)
        borders[self.distribution.offsets[lengths > 0]] = True
        first_tags = numpy.zeros(1, dtype="int64")
        rules = SpanRules(goes_on[:, None] & continues, first_tags, len(continues), borders)
        spans = LabelledSpans(words.starts, words.ends, numpy.zeros_like(words.starts))
        return span_probabilities(self.distribution, spans, rules)

    def n_best(self, docs: Sequence[Doc], n: int) -> list[list[Segmentation]]:
        """Find the n most probable segmentations of each document.

        docs (Sequence[Doc]): The documents of the batch.
        n (int): Number of segmentations.
        RETURNS (list[list[Segmentation]]): For each document its segmentations, most probable first; fewer than n where
            there are no more.
        RAISES (ValueError): CRF322 if n is less than 1.
        """
        if n < 1:
            raise ValueError(Errors.CRF322.format(n=n))
        log_probs, paths = n_best_paths(self.distribution, n)
        found: list[list[Segmentation]] = [[] for _ in docs]
        for scores, path in zip(log_probs.T.tolist(), paths, strict=True):
            starts = self.read_words(path).starts_by_doc(self.distribution.offsets)
            for segmentations, doc, score, first in zip(found, docs, scores, starts, strict=True):
                if score > -math.inf:
                    bounds = pairwise([*first.tolist(), len(doc)])
                    words = tuple(doc[start:end].text for start, end in bounds)
                    segmentations.append(Segmentation(words, score))
        return found
