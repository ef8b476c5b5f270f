"""Words read from scores of B, M, E and S, against enumeration of all ways to cut a text."""

import itertools
import math

import numpy
import pytest
import spacy
from enumeration import make_potentials
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc

from spacy_bilstm_crf.inference import loss_and_gradient
from spacy_bilstm_crf.pipeline.borders import BORDER, JOINED, UNKNOWN, Borders
from spacy_bilstm_crf.pipeline.word_batch import WordBatch, Words
from spacy_bilstm_crf.probabilities import Distribution, allowed_log_probs
from spacy_bilstm_crf.tag_scheme import TagScheme
from spacy_bilstm_crf.types import AllowedTransitions

SCHEME = TagScheme("BMES", outside=False)
ALLOWED = AllowedTransitions(*SCHEME.allowed_transitions([""]))
VOCAB = spacy.blank("xx").vocab
BATCHES = st.lists(st.lists(st.sampled_from([UNKNOWN, UNKNOWN, JOINED, BORDER]), max_size=6), min_size=1, max_size=3)


def cuts(states):
    """Each way to cut a document that agrees with what is known: its bounds."""
    n_tokens = len(states)
    for inner in itertools.product([False, True], repeat=max(n_tokens - 1, 0)):
        if all(state == UNKNOWN or (state == BORDER) == cut for state, cut in zip(states[1:], inner, strict=True)):
            yield [0, *[i for i, cut in enumerate(inner, 1) if cut], n_tokens] if n_tokens else []


def score(potentials, first, bounds):
    """The score of a way to cut: of its tags, written out word by word."""
    tags = [
        tag
        for start, end in itertools.pairwise(bounds)
        for tag in ([3] if end - start == 1 else [0, *[1] * (end - start - 2), 2])
    ]
    if not tags:
        return 0.0
    total = potentials.start_transitions[tags[0]] + potentials.end_transitions[tags[-1]]
    total += sum(potentials.transitions[move] for move in itertools.pairwise(tags))
    return float(total + sum(potentials.emissions[first + i, tag] for i, tag in enumerate(tags)))


class Enumerated:
    """A batch, and the probability of each way to cut each document of it."""

    def __init__(self, seed, batch):
        lengths = list(map(len, batch))
        self.potentials = make_potentials(numpy.random.default_rng(seed), lengths, 4)
        self.borders = Borders(
            numpy.array([state for states in batch for state in states], dtype="int64"), numpy.array(lengths)
        )
        possible = self.borders.possible_tags(SCHEME) if self.borders.is_informative() else None
        self.batch = WordBatch(SCHEME, Distribution(self.potentials, ALLOWED, possible))
        self.offsets = [sum(lengths[:i]) for i in range(len(lengths))]
        self.docs = [Doc(VOCAB, words=["甲乙丙丁戊己"[i] for i in range(n)], spaces=[False] * n) for n in lengths]
        self.log_probs = []
        for states, first in zip(batch, self.offsets, strict=True):
            scores = {tuple(bounds): score(self.potentials, first, bounds) for bounds in cuts(states)}
            log_z = numpy.logaddexp.reduce(list(scores.values()))
            self.log_probs.append({bounds: value - log_z for bounds, value in scores.items()})


@settings(max_examples=60)
@given(st.integers(0, 999), BATCHES)
def test_the_best_words_and_their_probabilities(seed, batch):
    expected = Enumerated(seed, batch)
    words = expected.batch.best_words()
    starts = words.starts_by_doc(expected.batch.distribution.offsets)
    for found, log_probs, doc in zip(starts, expected.log_probs, expected.docs, strict=True):
        best = max(log_probs, key=log_probs.get)
        assert (*found.tolist(), *[len(doc)] * bool(len(doc))) == best
    everything = [
        (first + a, first + b, i)
        for i, (first, doc) in enumerate(zip(expected.offsets, expected.docs, strict=True))
        for a in range(len(doc))
        for b in range(a + 1, len(doc) + 1)
    ]
    columns = numpy.array(everything, dtype="int64").reshape(-1, 3).T
    probabilities = expected.batch.probabilities(Words(*columns))
    for (start, end, i), found in zip(everything, probabilities.tolist(), strict=True):
        word = (start - expected.offsets[i], end - expected.offsets[i])
        true = sum(math.exp(p) for bounds, p in expected.log_probs[i].items() if word in itertools.pairwise(bounds))
        assert found == pytest.approx(true, abs=1e-5)


@settings(max_examples=40)
@given(st.integers(0, 999), BATCHES, st.integers(1, 40))
def test_n_best_segmentations(seed, batch, n):
    expected = Enumerated(seed, batch)
    for segmentations, log_probs, doc in zip(
        expected.batch.n_best(expected.docs, n), expected.log_probs, expected.docs, strict=True
    ):
        best = sorted(log_probs.items(), key=lambda item: -item[1])[:n]
        assert [s.log_prob for s in segmentations] == pytest.approx([p for _, p in best], abs=1e-4)
        assert len({s.words for s in segmentations}) == len(best)
        for segmentation in segmentations:
            bounds = tuple(numpy.cumsum([0, *map(len, segmentation.words)]).tolist()) if len(doc) else ()
            assert segmentation.log_prob == pytest.approx(log_probs[bounds], abs=1e-4)


@settings(max_examples=40)
@given(st.integers(0, 999), BATCHES)
def test_the_loss_of_what_is_known(seed, batch):
    free = Enumerated(seed, [[UNKNOWN] * len(states) for states in batch])
    known = Enumerated(seed, batch).borders
    losses, _ = loss_and_gradient(free.potentials, known.annotation(SCHEME), ALLOWED)
    log_probs = allowed_log_probs(free.batch.distribution, known.possible_tags(SCHEME))
    for loss, log_prob, states, all_log_probs in zip(losses, log_probs, batch, free.log_probs, strict=True):
        true = numpy.logaddexp.reduce([all_log_probs[tuple(bounds)] for bounds in cuts(states)])
        assert loss == pytest.approx(-true, abs=1e-4)
        assert log_prob == pytest.approx(true, abs=1e-4)
