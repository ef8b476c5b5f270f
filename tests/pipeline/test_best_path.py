"""Decoding against enumeration: what stands around presets, white space and sentence starts is the best path."""

import functools

import numpy
import pytest
from enumeration import (
    ALWAYS,
    SCHEMES,
    VOCAB,
    Paths,
    make_pipe,
    make_potentials,
    obeys_structure,
    read_entities,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc, Span

from spacy_bilstm_crf.tag_scheme import TagScheme

LABELS = ["PER", "LOC"]
paths_of = functools.cache(lambda scheme, n_tokens, constrained: Paths(scheme, LABELS, n_tokens, constrained))


@st.composite
def documents(draw, max_tokens=4):
    """Tokens, sentence starts, preset entities and blocked tokens."""
    words = draw(st.lists(st.sampled_from(["a", "b", " "]), min_size=1, max_size=max_tokens))
    starts = [True, *(draw(st.booleans()) for _ in words[1:])]
    presets, blocked, i = [], [], 0
    while i < len(words):
        kind = draw(st.sampled_from(["free", "free", "blocked", "entity"]))
        end = draw(st.integers(i + 1, len(words)))
        if kind == "entity":
            presets.append((i, end, draw(st.sampled_from([*LABELS, "UNKNOWN"]))))
        elif kind == "blocked":
            blocked.append((i, end))
        i = end
    return words, starts, presets, blocked


def make_doc(words, starts, presets, blocked):
    doc = Doc(VOCAB, words=words, sent_starts=starts)
    spans = [Span(doc, *preset) for preset in presets]
    doc.set_ents(spans, blocked=[doc[start:end] for start, end in blocked], default="missing")
    return doc


def keeps_presets(scheme, presets, blocked):
    """A predicate: tokens of presets have their tags, and nothing continues into or out of a preset."""
    known = [preset for preset in presets if preset[2] in LABELS]
    wanted = {i: "O" for start, end, *_ in [*presets, *blocked] for i in range(start, end)}
    for start, end, label in known:
        tags = TagScheme(scheme).spans_to_tags([(0, end - start, label)], end - start)
        wanted.update(zip(range(start, end), tags, strict=True))
    behind = {end for _, end, _ in known} - set(wanted)

    def predicate(tags, spans):
        if any(tags[i] != tag for i, tag in wanted.items()):
            return False
        return not any(tag[0] in ALWAYS[scheme][2] for i, tag in enumerate(tags) if i in behind)

    return predicate, set(wanted)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("constrained", [True, False])
@settings(max_examples=60, deadline=None)
@given(documents(max_tokens=3), st.integers(0, 1000))
def test_what_stands_around_presets_is_the_best_path(scheme, constrained, drawn, seed):
    words, starts, presets, blocked = drawn
    doc = make_doc(*drawn)
    is_space = [not word.strip() for word in words]
    paths = paths_of(scheme, len(words), constrained)
    is_kept, covered = keeps_presets(scheme, presets, blocked)
    chosen = paths.select(is_kept) & paths.select(obeys_structure(scheme, is_space, starts, outranked=covered))
    potentials = make_potentials(numpy.random.default_rng(seed), [len(words)], len(paths.tags), scale=3.0)
    scores = numpy.where(chosen, paths.scores(potentials), -numpy.inf)
    best = paths.paths[int(scores.argmax())]
    borders = [i == 0 or starts[i] or (i in covered) != (i - 1 in covered) for i in range(len(words))]
    for start, _, _ in presets:
        borders[start] = True
    found = [ent for ent in read_entities(scheme, best, is_space, borders) if ent[0] not in covered]
    pipe = make_pipe(scheme, LABELS, potentials=potentials, constrained=constrained)
    (doc,) = pipe.pipe([doc])
    assert [(ent.start, ent.end, ent.label_) for ent in doc.ents] == sorted([*presets, *found])
    assert all(doc[i].ent_iob == 3 and not doc[i].ent_type for start, end in blocked for i in range(start, end))


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=40, deadline=None)
@given(documents(max_tokens=3), st.integers(0, 1000))
def test_entities_can_be_overwritten_and_blocked_tokens_stay(scheme, drawn, seed):
    words, starts, _, blocked = drawn
    paths = paths_of(scheme, len(words), True)
    potentials = make_potentials(numpy.random.default_rng(seed), [len(words)], len(paths.tags), scale=3.0)
    pipe = make_pipe(scheme, LABELS, potentials=potentials, overwrite=True)
    (overwritten,) = pipe.pipe([make_doc(*drawn)])
    (expected,) = pipe.pipe([make_doc(words, starts, [], blocked)])
    assert [(ent.start, ent.end, ent.label_) for ent in overwritten.ents] == [
        (ent.start, ent.end, ent.label_) for ent in expected.ents
    ]
    assert all(overwritten[i].ent_iob == 3 and not overwritten[i].ent_type for s, e in blocked for i in range(s, e))
