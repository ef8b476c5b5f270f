"""Probabilities of segments against the sum over all paths that are read as having them."""

import itertools
import math
from collections import defaultdict

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_bilstm_crf import crf
from spacy_bilstm_crf.tag_scheme import TagScheme

SCHEMES = ["BIO", "BIOES", "IO", "BMES"]


def make_potentials(scheme, labels, lengths, *, constrained=True, seed=0, spread=1.5, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    n_tags = len(scheme.tags(labels))

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=dtype) * spread

    emissions = draw(len(lengths), max(lengths), n_tags)
    for doc, length in enumerate(lengths):
        emissions[doc, length:] = float("nan")
    moves = [draw(n_tags, n_tags), draw(n_tags), draw(n_tags)]
    if constrained:
        allowed = scheme.allowed_transitions(labels)
        moves = [crf.constrain(scores, torch.from_numpy(mask)) for scores, mask in zip(moves, allowed, strict=True)]
    return crf.Potentials(emissions, torch.tensor(lengths), *moves)


def make_rules(scheme, labels, potentials, borders=None):
    _, continues, goes_on, _ = scheme.tag_rules(len(labels))
    label = numpy.array([scheme.split(tag)[1] for tag in scheme.tags(labels)])
    joins = goes_on[:, None] & continues[None, :] & (label[:, None] == label[None, :])
    if borders is None:
        borders = torch.zeros(potentials.emissions.shape[:2], dtype=torch.bool)
    return crf.SegmentRules(torch.from_numpy(joins), len(scheme.prefixes), borders)


def first_tags(scheme, labels):
    return torch.arange(len(labels)) * len(scheme.prefixes) + int(scheme.outside)


def read_spans(scheme, tags, borders):
    edges = [0, *(i for i, border in enumerate(borders) if border and i), len(tags)]
    for start, end in itertools.pairwise(edges):
        yield from ((start + s, start + e, label) for s, e, label in scheme.tags_to_spans(tags[start:end]))


def enumerate_probabilities(scheme, labels, potentials, doc, possible=None, borders=None, trim=lambda span: span):
    """Add up the probabilities of all paths for each span that they are read as having."""
    length = int(potentials.lengths[doc])
    tags = scheme.tags(labels)
    borders = [False] * length if borders is None else borders[doc, :length].tolist()
    paths = numpy.array(list(itertools.product(range(len(tags)), repeat=length)))
    emissions, moves, start, end = (potentials[i].to(torch.float64).numpy() for i in (0, 2, 3, 4))
    scores = start[paths[:, 0]] + end[paths[:, -1]] + emissions[doc, numpy.arange(length), paths].sum(axis=1)
    scores += moves[paths[:, :-1], paths[:, 1:]].sum(axis=1)
    if possible is not None:
        scores[~possible[doc].numpy()[numpy.arange(length), paths].all(axis=1)] = -numpy.inf
    weights = numpy.exp(scores - scores.max())
    weights /= weights.sum()
    found = defaultdict(float)
    for path, weight in zip(paths[weights > 0], weights[weights > 0], strict=True):
        for span in read_spans(scheme, [tags[i] for i in path], borders):
            if (span := trim(span)) is not None:
                found[span] += weight
    return found


def all_spans(lengths, labels):
    return [
        (doc, start, end, label)
        for doc, length in enumerate(lengths)
        for start in range(length)
        for end in range(start + 1, length + 1)
        for label in range(len(labels))
    ]


def make_segments(spans, scheme, labels):
    docs, starts, ends, label = (torch.tensor(column) for column in zip(*spans, strict=True))
    return crf.Segments(docs, starts, ends, first_tags(scheme, labels)[label])


@pytest.mark.parametrize("constrained", [True, False])
@pytest.mark.parametrize(("labels", "lengths"), [(["A"], [6, 1, 2, 3, 5]), (["A", "C"], [2, 4, 1])])
@pytest.mark.parametrize("name", SCHEMES)
def test_probabilities_equal_enumeration(name, labels, lengths, constrained):
    scheme = TagScheme(name)
    potentials = make_potentials(scheme, labels, lengths, constrained=constrained)
    spans = all_spans(lengths, labels)
    rules = make_rules(scheme, labels, potentials)
    scores = crf.segment_log_prob_any_tags(potentials, make_segments(spans, scheme, labels), rules)
    expected = [enumerate_probabilities(scheme, labels, potentials, doc) for doc in range(len(lengths))]
    for (doc, start, end, label), score in zip(spans, scores.tolist(), strict=True):
        assert math.exp(score) == pytest.approx(expected[doc][start, end, labels[label]], abs=1e-9)


@given(
    name=st.sampled_from(SCHEMES),
    constrained=st.booleans(),
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    seed=st.integers(0, 1000),
    spread=st.sampled_from([0.1, 1.5, 30.0]),
)
@settings(max_examples=60, deadline=None)
def test_probabilities_equal_enumeration_with_masks_and_borders(name, constrained, lengths, seed, spread):
    scheme, labels = TagScheme(name), ["A"]
    potentials = make_potentials(scheme, labels, lengths, constrained=constrained, seed=seed, spread=spread)
    generator = torch.Generator().manual_seed(seed + 1)
    possible = torch.rand(potentials.emissions.shape, generator=generator) < 0.75
    possible[:, :, 0] = True
    borders = torch.rand(possible.shape[:2], generator=generator) < 0.3
    rules = make_rules(scheme, labels, potentials, borders)
    spans = all_spans(lengths, labels)
    segments = make_segments(spans, scheme, labels)
    scores = crf.segment_log_prob_any_tags(potentials, segments, rules, possible_tags=possible)
    expected = [
        enumerate_probabilities(scheme, labels, potentials, doc, possible, borders) for doc in range(len(lengths))
    ]
    for (doc, start, end, label), score in zip(spans, scores.tolist(), strict=True):
        assert math.exp(score) == pytest.approx(expected[doc][start, end, labels[label]], abs=1e-9)
    for threshold in (0.02, 0.3):
        found, log_probs = crf.likely_segments(potentials, threshold, first_tags(scheme, labels), rules, possible)
        wanted = {
            (doc, start, end): prob
            for doc, probs in enumerate(expected)
            for (start, end, _), prob in probs.items()
            if prob >= threshold
        }
        rows = list(zip(found.docs.tolist(), found.starts.tolist(), found.ends.tolist(), strict=True))
        assert rows == sorted(wanted)
        assert log_probs.exp().tolist() == pytest.approx([wanted[row] for row in rows], abs=1e-9)


@pytest.mark.parametrize("name", SCHEMES)
def test_segments_may_begin_and_end_where_they_are_cut_back(name):
    # Tokens 1 and 4 are cut off at the edges of whatever is read.
    scheme, labels, lengths = TagScheme(name), ["A"], [6]
    potentials = make_potentials(scheme, labels, lengths, constrained=False)

    def trim(span):
        start, end, label = span
        while start < end and start in (1, 4):
            start += 1
        while start < end and end - 1 in (1, 4):
            end -= 1
        return (start, end, label) if start < end else None

    expected = enumerate_probabilities(scheme, labels, potentials, 0, trim=trim)
    spans = [(0, start, end, 0) for start, end, _ in sorted(expected)]
    segments = make_segments(spans, scheme, labels)
    scores = crf.segment_log_prob_any_tags(
        potentials,
        segments,
        make_rules(scheme, labels, potentials),
        earliest=segments.starts - torch.tensor([int(start - 1 in (1, 4)) for _, start, _, _ in spans]),
        latest=segments.ends + torch.tensor([int(end in (1, 4)) for _, _, end, _ in spans]),
    )
    wanted = [expected[start, end, "A"] for _, start, end, _ in spans]
    assert scores.exp().tolist() == pytest.approx(wanted, abs=1e-9)


def test_it_agrees_with_segments_of_given_tags():
    scheme, labels = TagScheme("BIOES"), ["A", "C"]
    potentials = make_potentials(scheme, labels, [7, 5])
    segments = make_segments([(0, 2, 5, 1), (1, 0, 1, 0)], scheme, labels)
    rules = make_rules(scheme, labels, potentials)
    scores = crf.segment_log_prob_any_tags(potentials, segments, rules)
    tags = torch.tensor([[5, 6, 7], [4, 0, 0]])
    given_tags = crf.segment_log_prob(potentials, segments.docs, segments.starts, segments.ends, tags)
    assert scores.tolist() == pytest.approx(given_tags.tolist(), abs=1e-9)


@pytest.mark.parametrize("name", SCHEMES)
def test_a_long_segment_beside_short_ones(name):
    scheme, labels, n = TagScheme(name), ["A"], 700
    potentials = make_potentials(scheme, labels, [n, 3])
    rules = make_rules(scheme, labels, potentials)
    spans = [(1, 0, 2, 0), (0, 0, n, 0), (0, 17, 18, 0)]
    scores = crf.segment_log_prob_any_tags(potentials, make_segments(spans, scheme, labels), rules)
    alone = [
        crf.segment_log_prob_any_tags(potentials, make_segments([span], scheme, labels), rules).item() for span in spans
    ]
    assert scores.tolist() == pytest.approx(alone, rel=1e-9)
    assert -math.inf < scores[1] < -100


def test_no_segments():
    scheme, labels = TagScheme("BIO"), ["A"]
    potentials = make_potentials(scheme, labels, [3])
    none = crf.Segments(*(torch.zeros(0, dtype=torch.int64) for _ in range(4)))
    rules = make_rules(scheme, labels, potentials)
    assert crf.segment_log_prob_any_tags(potentials, none, rules).shape == (0,)
    certain = potentials._replace(emissions=torch.tensor([[[500.0, 0, 0]]]).expand(1, 3, 3))
    found, scores = crf.likely_segments(certain, 0.5, first_tags(scheme, labels), rules)
    assert len(found.docs) == len(scores) == 0
