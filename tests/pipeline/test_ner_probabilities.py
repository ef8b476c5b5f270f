"""Probabilities that the pipe gives, against the sum over all tag paths of a document."""

import itertools
import math
import zlib
from collections import defaultdict

import numpy
import pytest
import spacy
import srsly
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from thinc.api import Model

from spacy_bilstm_crf.pipeline.extensions import register_extensions
from spacy_bilstm_crf.pipeline.ner_crf import NERCRF
from spacy_bilstm_crf.scaling import AS_IT_IS, Scaling, shift_log_odds
from spacy_bilstm_crf.types import CRFPotentials

VOCAB = spacy.blank("en").vocab
SCHEMES = ["BIO", "BIOES", "IO", "BMES"]


def make_pipe(scheme="BIOES", labels=("A",), *, seed=0, spread=2.0, constrained=True, prob_attr="prob", **settings):
    """Make a pipe whose model gives random scores, the same for the same text."""

    def forward(model, docs, is_train):
        n_tags = model.get_dim("nO")
        generators = [numpy.random.default_rng([seed, zlib.crc32(doc.text.encode())]) for doc in docs]
        emissions = [rng.normal(0, spread, (len(doc), n_tags)) for rng, doc in zip(generators, docs, strict=True)]
        rng = numpy.random.default_rng(seed)
        moves = [rng.normal(0, spread, shape).astype("float32") for shape in ((n_tags, n_tags), n_tags, n_tags)]
        rows = numpy.concatenate([numpy.zeros((0, n_tags)), *emissions]).astype("float32")
        return CRFPotentials(rows, numpy.array([len(doc) for doc in docs]), *moves), lambda d: []

    model = Model("random", forward, dims={"nO": None}, attrs={"constrained": constrained})
    model.set_ref("output_layer", model)
    pipe = NERCRF(VOCAB, model, tag_scheme=scheme, prob_attr=prob_attr, **settings)
    for label in labels:
        pipe.add_label(label)
    model.set_dim("nO", len(pipe.tags))
    return pipe


def read_entities(pipe, doc, tags, keep_ents):
    """Read a tag path with nothing but Python: cut at sentence starts and presets, trimmed, outside of presets."""
    kept = list(doc.ents) if keep_ents else []
    covered = {token.i for ent in kept for token in ent}
    covered |= {token.i for token in doc if token.ent_iob == 3 and not token.ent_type}
    edges = {0, len(doc)} | {ent.start for ent in kept} | {ent.end for ent in kept}
    edges |= {token.i for token in doc if token.is_sent_start}
    edges |= {i for i in range(1, len(doc)) if (i in covered) != (i - 1 in covered)}
    found = []
    for first, last in itertools.pairwise(sorted(edges)):
        for start, end, label in pipe.tag_scheme.tags_to_spans(tags[first:last]):
            rows = list(range(first + start, first + end))
            while rows and doc[rows[0]].is_space:
                rows.pop(0)
            while rows and doc[rows[-1]].is_space:
                rows.pop()
            if rows and rows[0] not in covered:
                found.append((rows[0], rows[-1] + 1, label))
    return tuple(found)


def enumerate_paths(pipe, doc, *, keep_ents, temperature=1.0):
    """List all paths that are legal and possible, with their probabilities, most probable first."""
    tags = pipe.tags
    scores = pipe.model.predict([doc])
    paths = numpy.array(list(itertools.product(range(len(tags)), repeat=len(doc))))
    total = scores.emissions.astype("float64")[numpy.arange(len(doc)), paths].sum(axis=1)
    total += scores.transitions.astype("float64")[paths[:, :-1], paths[:, 1:]].sum(axis=1)
    total += scores.start_transitions.astype("float64")[paths[:, 0]] + scores.end_transitions[paths[:, -1]]
    overwrite, pipe.cfg["overwrite"] = pipe.cfg["overwrite"], not keep_ents
    possible = pipe.get_possible_tags([doc], is_train=False)
    pipe.cfg["overwrite"] = overwrite
    is_open = numpy.ones(len(paths), dtype=bool)
    if possible is not None:
        is_open &= possible[numpy.arange(len(doc)), paths].all(axis=1)
    if pipe.allowed_transitions is not None:
        moves, starts, ends = pipe.allowed_transitions
        is_open &= moves[paths[:, :-1], paths[:, 1:]].all(axis=1) & starts[paths[:, 0]] & ends[paths[:, -1]]
    paths, total = paths[is_open], total[is_open] / temperature
    weights = numpy.exp(total - total.max())
    order = numpy.argsort(-weights, kind="stable")
    return [[tags[tag] for tag in path] for path in paths[order].tolist()], (weights / weights.sum())[order]


def sum_entities(pipe, doc, *, keep_ents, **options):
    sums = defaultdict(float)
    for path, weight in zip(*enumerate_paths(pipe, doc, keep_ents=keep_ents, **options), strict=True):
        for span in read_entities(pipe, doc, path, keep_ents):
            sums[span] += weight
    return sums


@st.composite
def docs(draw, max_tokens=5, presets=True):
    n = draw(st.integers(1, max_tokens))
    words = draw(st.lists(st.sampled_from(["a", "b", "C", "\n", " "]), min_size=n, max_size=n))
    starts = draw(st.one_of(st.none(), st.lists(st.sampled_from([True, False, None]), min_size=n, max_size=n)))
    tags = None
    if presets:
        tags = draw(st.lists(st.sampled_from(["O", "O", "B-A", "B-other", "B-", ""]), min_size=n, max_size=n))
    doc = Doc(VOCAB, words=words, sent_starts=starts)
    if tags is not None:
        spans = [Span(doc, i, i + 1, label=tag[2:]) for i, tag in enumerate(tags) if tag[2:]]
        doc.set_ents(spans, blocked=[doc[i : i + 1] for i, tag in enumerate(tags) if tag == "B-"], default="missing")
    return doc


def as_tuples(spans):
    return [(span.start, span.end, span.label_) for span in spans]


@given(
    doc=docs(),
    scheme=st.sampled_from(SCHEMES),
    constrained=st.booleans(),
    overwrite=st.booleans(),
    temperature=st.sampled_from([1.0, 2.5]),
    seed=st.integers(0, 99),
)
@settings(max_examples=120, deadline=None)
def test_entity_probabilities_equal_enumeration(doc, scheme, constrained, overwrite, temperature, seed):
    pipe = make_pipe(scheme, seed=seed, constrained=constrained, overwrite=overwrite, spans_key="sc")
    pipe.cfg.update(spans_threshold=0.01, temperature=temperature)
    expected = sum_entities(pipe, doc, keep_ents=not overwrite, temperature=temperature)
    best, weights = enumerate_paths(pipe, doc, keep_ents=not overwrite, temperature=temperature)
    presets = as_tuples(doc.ents) if not overwrite else []
    expected_best = read_entities(pipe, doc, best[0], not overwrite)
    predictions = pipe.predict([doc])
    pipe.set_annotations([doc], predictions)
    found = [ent for ent in doc.ents if (ent.start, ent.end, ent.label_) not in presets]
    assert tuple(as_tuples(found)) == expected_best
    for ent in found:
        # Divided by a temperature, scores are rounded to float32 once more.
        assert ent._.prob == pytest.approx(expected[ent.start, ent.end, ent.label_], abs=1e-7)
        assert ent._.prob >= weights[0] - 1e-7
    group = doc.spans["sc"]
    assert {span for span, prob in expected.items() if prob >= 0.01 + 1e-6} <= set(as_tuples(group))
    for span, score in zip(group, group.attrs["scores"], strict=True):
        assert score == pytest.approx(expected[span.start, span.end, span.label_], abs=1e-6)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_entity_probabilities_of_two_labels_in_a_batch(scheme):
    pipe = make_pipe(scheme, ("A", "C"))
    batch = [Doc(pipe.vocab, words=list(words)) for words in ("ab", "abcd", "a", "", "cbad")]
    pipe.set_annotations(batch, pipe.predict(batch))
    assert sum(len(doc.ents) for doc in batch) > 2
    for doc in batch:
        expected = sum_entities(pipe, Doc(doc.vocab, words=[t.text for t in doc]), keep_ents=True) if len(doc) else {}
        for ent in doc.ents:
            assert ent._.prob == pytest.approx(expected[ent.start, ent.end, ent.label_], abs=1e-9)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_entity_probabilities_of_six_tokens_under_presets(scheme):
    pipe = make_pipe(scheme, spans_key="sc", spans_threshold=0.001)
    doc = Doc(VOCAB, words=["a", "b", "\n", "c", "d", "a"], ents=["", "", "", "", "B-A", ""])
    expected = sum_entities(pipe, doc, keep_ents=True)
    pipe.set_annotations([doc], pipe.predict([doc]))
    group = doc.spans["sc"]
    scores = dict(zip(as_tuples(group), group.attrs["scores"].tolist(), strict=True))
    assert scores == pytest.approx({span: prob for span, prob in expected.items() if prob >= 0.001}, abs=1e-6)


@given(doc=docs(max_tokens=4), scheme=st.sampled_from(SCHEMES), keep_ents=st.booleans(), n=st.sampled_from([1, 3, 99]))
@settings(max_examples=60, deadline=None)
def test_n_best_equals_enumeration(doc, scheme, keep_ents, n):
    pipe = make_pipe(scheme)
    before = doc.to_bytes()
    paths, weights = enumerate_paths(pipe, doc, keep_ents=keep_ents)
    (found,) = pipe.n_best([doc], n, keep_ents=keep_ents)
    assert len(found) == min(n, len(paths))
    assert [path.prob for path in found] == pytest.approx(weights[:n].tolist(), abs=1e-9)
    assert [path.prob for path in found] == sorted((path.prob for path in found), reverse=True)
    assert len({tuple(path.tags) for path in found}) == len(found)
    for path in found:
        index = paths.index(path.tags)
        assert path.prob == pytest.approx(weights[index], abs=1e-9)
        expected = read_entities(pipe, doc, path.tags, keep_ents) + tuple(as_tuples(doc.ents) if keep_ents else ())
        assert as_tuples(path.ents) == sorted(expected)
    assert doc.to_bytes() == before


def test_n_best_of_a_document_that_the_pipe_has_seen_is_not_bound_by_it():
    pipe = make_pipe()
    doc = Doc(pipe.vocab, words=list("abcd"))
    (before,) = pipe.n_best([doc], 3)
    pipe.set_annotations([doc], pipe.predict([doc]))
    assert doc.ents
    assert [path.tags for path in pipe.n_best([doc], 3)[0]] == [path.tags for path in before]
    assert all(
        set(as_tuples(doc.ents)) <= set(as_tuples(path.ents)) for path in pipe.n_best([doc], 3, keep_ents=True)[0]
    )


def test_n_best_of_a_document_without_tokens():
    pipe = make_pipe()
    (found,) = pipe.n_best([Doc(pipe.vocab)], 3)
    assert [(path.tags, path.ents, path.prob) for path in found] == [([], (), 1.0)]
    assert pipe.n_best([], 3) == []


def test_the_number_of_paths_is_checked():
    pipe = make_pipe()
    with pytest.raises(ValueError, match="CRF322"):
        pipe.n_best([Doc(pipe.vocab, words=["a"])], 0)


@given(doc=docs(max_tokens=4, presets=False), scheme=st.sampled_from(SCHEMES))
@settings(max_examples=40, deadline=None)
def test_the_probabilities_of_annotations_equal_enumeration(doc, scheme):
    pipe = make_pipe(scheme)
    paths, weights = enumerate_paths(pipe, doc, keep_ents=False)
    total = 0.0
    for path, weight in zip(paths, weights, strict=True):
        copy = doc.copy()
        copy.set_ents([Span(copy, s, e, label=label) for s, e, label in pipe.tag_scheme.tags_to_spans(path)])
        assert pipe.log_prob([copy])[0] == pytest.approx(math.log(weight), abs=1e-6)
        total += weight
    assert total == pytest.approx(1.0)


def test_tokens_without_annotation_are_left_open():
    pipe = make_pipe()
    doc = Doc(pipe.vocab, words=list("abcd"))
    assert pipe.log_prob([doc])[0] == pytest.approx(0.0, abs=1e-12)
    doc.set_ents([doc[1:2].char_span(0, 1, label="A")], default="missing")
    expected = sum_entities(pipe, Doc(pipe.vocab, words=list("abcd")), keep_ents=False)[1, 2, "A"]
    assert pipe.log_prob([doc])[0] == pytest.approx(math.log(expected))


def test_what_no_path_spells_has_probability_0():
    pipe = make_pipe()
    unknown, space, empty = (Doc(pipe.vocab, words=words) for words in (["a", "b"], ["a", " ", "b"], []))
    unknown.set_ents([Span(unknown, 0, 1, label="unknown")])
    space.set_ents([Span(space, 0, 2, label="A")])
    assert pipe.log_prob([unknown, space, empty]).tolist() == [-math.inf, -math.inf, 0.0]


@pytest.mark.parametrize("keep_ents", [True, False])
def test_marginals_equal_enumeration(keep_ents):
    pipe = make_pipe(labels=("A", "C"))
    doc = Doc(pipe.vocab, words=list("abcd"), ents=["O", "B-A", "I-A", "O"])
    other = Doc(pipe.vocab)
    found = pipe.marginals([other, doc], keep_ents=keep_ents)
    assert found[0].shape == (0, len(pipe.tags))
    paths, weights = enumerate_paths(pipe, doc, keep_ents=keep_ents)
    expected = numpy.zeros((4, len(pipe.tags)))
    for path, weight in zip(paths, weights, strict=True):
        expected[range(4), [pipe.tags.index(tag) for tag in path]] += weight
    assert found[1] == pytest.approx(expected, abs=1e-5)
    assert pipe.marginals([]) == []


def test_entities_below_the_threshold_are_dropped():
    pipe = make_pipe()
    texts = [list("abcd"), list("dcb"), list("bbdca"), list("ac")]
    batch = [Doc(pipe.vocab, words=words) for words in texts]
    pipe.set_annotations(batch, pipe.predict(batch))
    probabilities = sorted(ent._.prob for doc in batch for ent in doc.ents)
    assert len(probabilities) > 3
    pipe.cfg["threshold"] = probabilities[2]
    again = [Doc(pipe.vocab, words=words) for words in texts]
    pipe.set_annotations(again, pipe.predict(again))
    assert sorted(ent._.prob for doc in again for ent in doc.ents) == probabilities[2:]


def test_presets_have_no_probability_and_no_threshold():
    pipe = make_pipe(threshold=1.0, spans_key="sc")
    doc = Doc(pipe.vocab, words=list("abcd"), ents=["O", "B-A", "O", "O"])
    pipe.set_annotations([doc], pipe.predict([doc]))
    assert as_tuples(doc.ents) == [(1, 2, "A")]
    assert doc.ents[0]._.prob is None
    assert len(doc.spans["sc"]) == 0


def test_probabilities_can_be_left_out():
    pipe = make_pipe(prob_attr=None)
    doc = Doc(pipe.vocab, words=list("abcd"))
    pipe.set_annotations([doc], pipe.predict([doc]))
    assert doc.ents
    assert not doc.user_data
    assert not doc.spans


def test_the_attribute_has_a_name_of_ones_choice():
    pipe = make_pipe(prob_attr="certainty")
    doc = Doc(pipe.vocab, words=list("abcd"))
    pipe.set_annotations([doc], pipe.predict([doc]))
    assert 0 < doc.ents[0]._.certainty <= 1
    Span.remove_extension("certainty")


def test_an_attribute_that_cannot_hold_a_value_is_refused():
    Span.set_extension("shouted", getter=lambda span: span.text.upper())
    with pytest.raises(ValueError, match="CRF320"):
        register_extensions("shouted")
    Span.remove_extension("shouted")
    register_extensions()
    register_extensions()


@pytest.mark.parametrize("setting", [{"threshold": 1.1}, {"threshold": -0.1}, {"spans_threshold": 0.0}])
def test_thresholds_are_probabilities(setting):
    with pytest.raises(ValueError, match="CRF321"):
        make_pipe(**setting)


def test_probabilities_are_stored_with_the_document():
    pipe = make_pipe(spans_key="sc", spans_threshold=0.05)
    doc = Doc(pipe.vocab, words=list("abcd"))
    pipe.set_annotations([doc], pipe.predict([doc]))
    stored = DocBin(docs=[doc], store_user_data=True).to_bytes()
    copies = [Doc(pipe.vocab).from_bytes(doc.to_bytes()), *DocBin().from_bytes(stored).get_docs(pipe.vocab)]
    for copy in copies:
        assert [ent._.prob for ent in copy.ents] == [ent._.prob for ent in doc.ents]
        assert as_tuples(copy.spans["sc"]) == as_tuples(doc.spans["sc"])
        assert copy.spans["sc"].attrs["scores"].tolist() == doc.spans["sc"].attrs["scores"].tolist()


def test_a_temperature_changes_probabilities_but_not_the_best_path():
    texts = [list("abcd"), list("dcb"), list("bbdca"), list("ac")]
    pipe = make_pipe()
    batch = [Doc(pipe.vocab, words=words) for words in texts]
    before = pipe.predict(batch)
    pipe.cfg["temperature"] = 3.0
    after = pipe.predict(batch)
    assert after.tag_ids.tolist() == before.tag_ids.tolist()
    assert (after.probabilities != before.probabilities).all()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("words", [list("abcd"), ["a", "\n", "b", " "]])
def test_biases_of_labels_shift_the_odds_of_their_entities_alone(words, scheme):
    pipe = make_pipe(scheme, ("A", "B"), spans_key="sc")
    pipe.cfg["spans_threshold"] = 0.001
    doc = Doc(pipe.vocab, words=words)
    before, paths = pipe.predict([doc]), pipe.n_best([doc], 3)
    spans = dict(zip(zip(*_columns(before.spans.entities), strict=True), before.spans.probabilities, strict=True))
    pipe.cfg["label_biases"] = {"A": 1.5, "B": -0.5}
    pipe.cfg["spans_threshold"] = 0.02
    after = pipe.predict([doc])
    assert after.tag_ids.tolist() == before.tag_ids.tolist()
    assert [path.log_prob for path in pipe.n_best([doc], 3)[0]] == [path.log_prob for path in paths[0]]
    shifted = {row: shift_log_odds(prob, 1.5 if row[2] == 0 else -0.5) for row, prob in spans.items()}
    found = dict(zip(zip(*_columns(after.spans.entities), strict=True), after.spans.probabilities, strict=True))
    # All that are so probable after the shift, and the entities of the best path.
    best = set(zip(*_columns(after.entities), strict=True))
    assert set(found) == {row for row, prob in shifted.items() if prob >= 0.02} | best
    assert found == {row: pytest.approx(shifted[row], abs=1e-7) for row in found}


def test_what_was_fitted_goes_with_the_weights():
    examples = [Example.from_dict(Doc(VOCAB, words=["a", "b"]), {"entities": ["U-A", "O"]})]
    nlp = spacy.blank("en")
    pipe = nlp.add_pipe("ner_crf")
    nlp.initialize(lambda: examples)
    plain = pipe.to_bytes()
    # Once each as a file of an earlier version has it: among what was configured, or not at all.
    for change in ({}, {"configured": {"temperature": 1.0}}, {"label_biases": None}):
        pipe.cfg.update(temperature=2.0, label_biases={"A": 0.5})
        fitted = pipe.to_bytes()
        fields = srsly.msgpack_loads(plain)
        cfg = srsly.json_loads(fields["cfg"])
        cfg = {name: value for name, value in {**cfg, **change}.items() if value is not None}
        pipe.from_bytes(srsly.msgpack_dumps({**fields, "cfg": srsly.json_dumps(cfg)}))
        assert pipe.scaling == AS_IT_IS
        pipe.from_bytes(fitted)
        assert pipe.scaling == Scaling(2.0, (0.5,))
    pipe.cfg["label_biases"]["A"] = 1.0
    assert pipe.from_bytes(pipe.to_bytes()).scaling == Scaling(2.0, (1.0,))
    nlp.initialize(lambda: examples)
    assert pipe.scaling == AS_IT_IS


def _columns(entities):
    return entities.starts.tolist(), entities.ends.tolist(), entities.labels.tolist()


def test_probabilities_through_the_pipeline(tmp_path):
    nlp = spacy.blank("en")
    pipe = nlp.add_pipe("ner_crf", config={"prob_attr": "prob", "spans_key": "sc", "spans_threshold": 0.02})
    pipe.add_label("A")
    nlp.initialize()
    texts = ["Anna moved to Lisbon .", "", "Omar works ."] * 3
    one = [[(*s, e._.prob) for s, e in zip(as_tuples(doc.ents), doc.ents, strict=True)] for doc in nlp.pipe(texts)]
    assert any(one)
    two = list(nlp.pipe(texts, n_process=2, batch_size=2))
    for expected, doc in zip(one, two, strict=True):
        found = [(*s, e._.prob) for s, e in zip(as_tuples(doc.ents), doc.ents, strict=True)]
        assert [row[:3] for row in found] == [row[:3] for row in expected]
        assert [row[3] for row in found] == pytest.approx([row[3] for row in expected], abs=1e-6)
    nlp.get_pipe("ner_crf").cfg.update(temperature=2.0, label_biases={"A": 0.5})
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    assert loaded.get_pipe("ner_crf").cfg["temperature"] == 2.0
    assert loaded.get_pipe("ner_crf").cfg["label_biases"] == {"A": 0.5}
    assert [e._.prob for e in loaded(texts[0]).ents] == [e._.prob for e in nlp(texts[0]).ents]
