"""Probabilities of ragged batches, against the same documents one by one."""

import numpy
import pytest

from spacy_bilstm_crf.probabilities import (
    Distribution,
    LabelledSpans,
    SpanRules,
    allowed_log_probs,
    entropies,
    likely_spans,
    n_best_paths,
    pair_marginals,
    span_probabilities,
)
from spacy_bilstm_crf.types import CRFPotentials

N_TAGS = 3  # "O", "B", "I"
LENGTHS = [3, 0, 1, 7, 2, 0]
JOINS = numpy.array([[False, False, False], [False, False, True], [False, False, True]])


def make_distribution(lengths=LENGTHS, spread=1.5):
    rng = numpy.random.default_rng(0)
    parts = [rng.normal(0, spread, shape).astype("float32") for shape in ((N_TAGS, N_TAGS), N_TAGS, N_TAGS)]
    emissions = rng.normal(0, spread, (sum(lengths), N_TAGS)).astype("float32")
    possible = rng.random(emissions.shape) < 0.8
    possible[:, 0] = True
    return Distribution(CRFPotentials(emissions, numpy.array(lengths), *parts), None, possible)


def make_rules(n_tokens):
    return SpanRules(JOINS, numpy.array([1]), 2, numpy.zeros(n_tokens, dtype=bool))


def split(distribution):
    """Each document as a batch of its own."""
    scores = distribution.potentials
    for offset, length in zip(distribution.offsets.tolist(), scores.lengths.tolist(), strict=True):
        rows = slice(offset, offset + length)
        moves = (scores.transitions, scores.start_transitions, scores.end_transitions)
        part = CRFPotentials(scores.emissions[rows], numpy.array([length]), *moves)
        yield offset, Distribution(part, None, distribution.possible_tags[rows])


def all_spans(distribution):
    spans = [
        (offset + start, offset + end, 0)
        for offset, length in zip(distribution.offsets.tolist(), distribution.potentials.lengths.tolist(), strict=True)
        for start in range(length)
        for end in range(start + 1, length + 1)
    ]
    return LabelledSpans(*numpy.array(spans, dtype="int64").T)


def test_spans_do_not_depend_on_the_batch():
    distribution = make_distribution()
    whole = span_probabilities(distribution, all_spans(distribution), make_rules(distribution.n_tokens))
    alone = [
        span_probabilities(part, all_spans(part), make_rules(part.n_tokens))
        for _, part in split(distribution)
        if part.n_tokens
    ]
    assert whole == pytest.approx(numpy.concatenate(alone), abs=1e-9)
    assert (whole > 0.1).any()


def test_likely_spans_are_those_above_the_threshold():
    distribution = make_distribution()
    rules, spans = make_rules(distribution.n_tokens), all_spans(distribution)
    probabilities = span_probabilities(distribution, spans, rules)
    found, scores = likely_spans(distribution, 0.05, rules)
    expected = sorted(zip(spans.starts[probabilities >= 0.05], spans.ends[probabilities >= 0.05], strict=True))
    assert list(zip(found.starts, found.ends, strict=True)) == expected
    assert 3 < len(found) < len(spans)
    assert sorted(scores) == pytest.approx(sorted(probabilities[probabilities >= 0.05]), abs=1e-9)


def test_figures_of_documents_do_not_depend_on_the_batch():
    distribution = make_distribution()
    allowed = numpy.random.default_rng(1).random((distribution.n_tokens, N_TAGS)) < 0.7
    log_probs, paths = n_best_paths(distribution, 4)
    pairs = pair_marginals(distribution)
    for i, (offset, part) in enumerate(split(distribution)):
        rows = slice(offset, offset + part.n_tokens)
        assert entropies(distribution)[i] == pytest.approx(entropies(part)[0], abs=1e-9)
        within = allowed_log_probs(part, allowed[rows])[0]
        assert allowed_log_probs(distribution, allowed)[i] == pytest.approx(within, abs=1e-9)
        alone, alone_paths = n_best_paths(part, 4)
        assert log_probs[i] == pytest.approx(alone[0], abs=1e-9)
        assert (paths[:, rows] == alone_paths).all()
        assert pairs[rows] == pytest.approx(pair_marginals(part), abs=1e-6)
        assert pairs[rows].sum(axis=(1, 2)) == pytest.approx([0.0, *[1.0] * (part.n_tokens - 1)][: part.n_tokens])


def test_a_document_without_tokens_is_certain():
    distribution = make_distribution([0, 0])
    assert entropies(distribution).tolist() == [0.0, 0.0]
    assert allowed_log_probs(distribution, numpy.zeros((0, N_TAGS), dtype=bool)).tolist() == [0.0, 0.0]
    assert n_best_paths(distribution, 2)[0].tolist() == [[0.0, -numpy.inf]] * 2
    none = LabelledSpans(*numpy.zeros((3, 0), dtype="int64"))
    assert len(span_probabilities(distribution, none, make_rules(0))) == 0
    assert len(likely_spans(distribution, 0.5, make_rules(0))[0]) == 0


def test_a_temperature_divides_all_scores():
    distribution = make_distribution()
    assert distribution.with_temperature(1.0) is distribution
    cold, hot = (distribution.with_temperature(temperature) for temperature in (1e-4, 1000.0))
    assert entropies(cold) == pytest.approx(0.0, abs=0.2)
    n_paths = [
        numpy.log(distribution.possible_tags[offset : offset + part.n_tokens].sum(axis=1)).sum()
        for offset, part in split(distribution)
    ]
    assert entropies(hot) == pytest.approx(n_paths, abs=1e-3)
