"""The entity recognizer: training, labels, losses, scores, files."""

import copy
import pickle

import numpy
import pytest
import spacy
import torch
from enumeration import make_pipe, make_potentials
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import registry
from tiny_pipelines import (
    LABELS,
    SENTENCES,
    TEXTS,
    assert_same_predictions,
    get_ents,
    make_examples,
    make_nlp,
    predict_ents,
    predict_scores,
    train,
    train_nlp,
)

from spacy_bilstm_crf.tag_scheme import TagScheme

SCHEMES = ["BIO", "BIOES", "IO", "BMES"]


def load_trained(trained_bytes, **settings):
    return make_nlp(**settings).from_bytes(trained_bytes)


# Training


def test_a_handful_of_sentences_is_learnt_by_heart_in_every_scheme(trained_in_scheme):
    scores = trained_in_scheme.evaluate(make_examples(trained_in_scheme))
    assert scores["ents_f"] == 1.0
    assert {label: row["f"] for label, row in scores["ents_per_type"].items()} == dict.fromkeys(LABELS, 1.0)


@pytest.mark.parametrize(
    "model",
    [{"crf": False}, {"constrained": False}, {"depth": 0}, {"depth": 2}, {"mixed_precision": True}],
    ids=lambda model: "-".join(map(str, *model.items())),
)
def test_every_switch_of_the_network_learns(model):
    nlp = train_nlp(model=model)
    assert nlp.evaluate(make_examples(nlp))["ents_f"] > (0.5 if "depth" in model and not model["depth"] else 0.99)


def test_the_empty_config_learns():
    nlp = spacy.blank("en")
    pipe = nlp.add_pipe("ner_crf")
    train(nlp, n_steps=15, learn_rate=0.01)
    assert pipe.tag_scheme == TagScheme("BIOES")
    assert nlp.evaluate(make_examples(nlp))["ents_f"] == 1.0


def test_training_is_reproducible(trained):
    assert_same_predictions(trained, train_nlp())


@pytest.mark.parametrize("alias", ["BILUO", "biluo", "bioes"])
def test_schemes_have_other_names(alias):
    assert make_nlp(tag_scheme=alias).get_pipe("ner_crf").tag_scheme.name == "BIOES"


def test_gradients_add_up_without_an_optimizer():
    nlp = make_nlp()
    nlp.initialize(lambda: make_examples(nlp))
    optimizer = nlp.create_optimizer()
    before = predict_scores(nlp).emissions
    pipe = nlp.get_pipe("ner_crf")
    pipe.update(make_examples(nlp), sgd=None)
    numpy.testing.assert_array_equal(predict_scores(nlp).emissions, before)
    pipe.finish_update(optimizer)
    assert not numpy.allclose(predict_scores(nlp).emissions, before)


def test_averaged_weights_are_used_and_given_back():
    nlp = make_nlp()
    optimizer = train(nlp, n_steps=5)
    current = predict_scores(nlp)
    shim = nlp.get_pipe("ner_crf").model.get_ref("output_layer").shims[0]
    with nlp.use_params(optimizer.averages):
        averaged = predict_scores(nlp)
        for name, parameter in shim.network.named_parameters():
            assert numpy.array_equal(parameter.detach().numpy(), optimizer.averages[shim.id, name]), name
    for now, average, later in zip(current.arrays, averaged.arrays, predict_scores(nlp).arrays, strict=True):
        assert not numpy.array_equal(now, average)
        numpy.testing.assert_array_equal(now, later)


def test_averaged_weights_are_what_is_saved_inside_of_their_context():
    nlp = make_nlp()
    optimizer = train(nlp, n_steps=5)
    with nlp.use_params(optimizer.averages):
        loaded = make_nlp().from_bytes(nlp.to_bytes())
        assert_same_predictions(nlp, loaded)


def test_dropout_is_noise_in_training_alone(trained_bytes):
    nlp = load_trained(trained_bytes)
    before = predict_scores(nlp).emissions
    pipe = nlp.get_pipe("ner_crf")
    losses = [pipe.update(make_examples(nlp), drop=0.5, sgd=None)["ner_crf"] for _ in range(2)]
    assert losses[0] != losses[1]
    numpy.testing.assert_array_equal(predict_scores(nlp).emissions, before)
    losses = [pipe.update(make_examples(nlp), drop=0.0, sgd=None)["ner_crf"] for _ in range(2)]
    assert losses[0] == losses[1]


# Losses


def test_the_loss_is_the_mean_over_sequences(trained_bytes):
    nlp = load_trained(trained_bytes)
    pipe = nlp.get_pipe("ner_crf")
    examples = make_examples(nlp, [(text.lower(), entities) for text, entities in SENTENCES])
    alone = [pipe.update([eg], sgd=None)["ner_crf"] for eg in examples]
    assert min(alone) >= 0.0
    assert sum(alone) > 0.01
    for batch in (examples, 2 * examples):
        assert pipe.update(batch, sgd=None)["ner_crf"] == pytest.approx(sum(alone) / len(alone), rel=1e-4)


def test_losses_add_up_over_batches(trained_bytes):
    nlp = load_trained(trained_bytes)
    pipe = nlp.get_pipe("ner_crf")
    losses = {}
    pipe.update(make_examples(nlp), losses=losses)
    once = losses["ner_crf"]
    pipe.update(make_examples(nlp), losses=losses)
    assert losses["ner_crf"] == pytest.approx(2 * once, rel=1e-5)


def test_get_loss_is_what_update_reports(trained_bytes):
    nlp = load_trained(trained_bytes)
    pipe = nlp.get_pipe("ner_crf")
    examples = make_examples(nlp)
    loss, gradient = pipe.get_loss(examples, pipe.model.predict([eg.predicted for eg in examples]))
    assert loss == pytest.approx(pipe.update(examples, sgd=None)["ner_crf"], rel=1e-4, abs=1e-6)
    assert gradient.emissions.shape == (sum(len(eg.predicted) for eg in examples), len(pipe.tags))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_without_crf_the_loss_is_the_sum_of_cross_entropies(scheme):
    nlp = make_nlp(tag_scheme=scheme, model={"crf": False})
    train(nlp, n_steps=2)
    pipe = nlp.get_pipe("ner_crf")
    examples = make_examples(nlp)
    potentials = pipe.model.predict([eg.predicted for eg in examples])
    tags = [
        pipe.tags.index(tag)
        for eg, (_, entities) in zip(examples, SENTENCES, strict=True)
        for tag in pipe.tag_scheme.spans_to_tags(entities, len(eg.reference))
    ]
    emissions = torch.tensor(potentials.emissions, requires_grad=True)
    expected = torch.nn.functional.cross_entropy(emissions, torch.tensor(tags), reduction="sum")
    expected.backward()
    loss, gradient = pipe.get_loss(examples, potentials)
    assert loss * len(examples) == pytest.approx(expected.item(), rel=1e-5)
    numpy.testing.assert_allclose(len(examples) * gradient.emissions, emissions.grad.numpy(), atol=1e-5)


def test_without_crf_every_token_is_tagged_for_itself():
    nlp = make_nlp(model={"crf": False})
    train(nlp, n_steps=3)
    pipe = nlp.get_pipe("ner_crf")
    docs = [nlp.make_doc(text) for text in TEXTS[:3]]
    potentials = pipe.model.predict(docs)
    assert pipe.predict(docs).tag_ids.tolist() == potentials.emissions.argmax(axis=1).tolist()
    assert not any(array.any() for array in potentials.arrays[1:])


# Constraints


@pytest.mark.parametrize("scheme", SCHEMES)
def test_random_scores_never_give_an_illegal_path(scheme):
    rng = numpy.random.default_rng(0)
    labels = ["A", "B"]
    lengths = rng.integers(1, 12, size=200)
    potentials = make_potentials(rng, lengths, len(TagScheme(scheme).tags(labels)), scale=5.0)
    vocab = spacy.blank("en").vocab
    docs = [Doc(vocab, words=["w"] * n) for n in lengths.tolist()]
    pipe = make_pipe(scheme, labels, potentials=potentials)
    assert pipe.tag_scheme.is_legal(pipe.predict(docs).tag_ids, lengths, labels).all()
    free = make_pipe(scheme, labels, potentials=potentials, constrained=False)
    is_legal = free.tag_scheme.is_legal(free.predict(docs).tag_ids, lengths, labels)
    # Every path of IO is legal.
    assert is_legal.all() == (scheme == "IO")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_illegal_paths_are_repaired(scheme):
    rng = numpy.random.default_rng(0)
    labels = ["A", "B"]
    lengths = rng.integers(1, 12, size=50)
    potentials = make_potentials(rng, lengths, len(TagScheme(scheme).tags(labels)), scale=5.0)
    vocab = spacy.blank("en").vocab
    docs = [Doc(vocab, words=["w"] * n) for n in lengths.tolist()]
    pipe = make_pipe(scheme, labels, potentials=potentials, constrained=False)
    predictions = pipe.predict(docs)
    pipe.set_annotations(docs, predictions)
    offset = 0
    for doc in docs:
        tags = [pipe.tags[i] for i in predictions.tag_ids[offset : offset + len(doc)]]
        assert get_ents(doc) == pipe.tag_scheme.tags_to_spans(tags)
        offset += len(doc)


def test_the_config_says_whether_paths_are_constrained_not_the_file(trained_bytes):
    assert load_trained(trained_bytes).get_pipe("ner_crf").allowed_transitions is not None
    nlp = load_trained(trained_bytes, model={"constrained": False})
    assert nlp.get_pipe("ner_crf").allowed_transitions is None


# Scores


def test_scores_are_those_of_spacys_ner(trained):
    examples = make_examples(trained)
    for eg in examples:
        trained.get_pipe("ner_crf")(eg.predicted)
    first = examples[0].predicted
    first.ents = [Span(first, 0, 1, "PER"), Span(first, 4, 6, "ORG")]  # one cut, one right, one missed
    received = trained.get_pipe("ner_crf").score(examples)
    assert received == spacy.blank("en").create_pipe("ner").score(examples)
    assert received["ents_p"] == pytest.approx(10 / 11)
    assert received["ents_r"] == pytest.approx(10 / 12)
    assert set(received["ents_per_type"]) == set(LABELS)


def test_the_score_that_counts_is_ents_f():
    assert spacy.blank("en").get_factory_meta("ner_crf").default_score_weights["ents_f"] == 1.0


# Labels


def test_labels_are_found_and_sorted(trained):
    pipe = trained.get_pipe("ner_crf")
    assert pipe.labels == LABELS
    assert pipe.label_data == list(LABELS)
    assert trained.pipe_labels["ner_crf"] == list(LABELS)
    assert pipe.tags == TagScheme("BIOES").tags(LABELS)
    assert isinstance(pipe.labels, tuple)


def test_labels_can_be_given(tmp_path):
    nlp = make_nlp()
    path = tmp_path / "labels.json"
    path.write_text('["PER", "ORG", "LOC", "DATE"]')
    nlp.config["initialize"]["components"] = {
        "ner_crf": {"labels": {"@readers": "spacy.read_labels.v1", "path": str(path)}}
    }
    nlp.initialize(lambda: make_examples(nlp))
    assert nlp.get_pipe("ner_crf").labels == ("PER", "ORG", "LOC", "DATE")
    nlp.update(make_examples(nlp))


def test_label_data_goes_into_initialize(trained):
    nlp = make_nlp()
    pipe = nlp.get_pipe("ner_crf")
    pipe.initialize(lambda: make_examples(nlp), nlp=nlp, labels=trained.get_pipe("ner_crf").label_data)
    assert pipe.labels == LABELS


def test_labels_added_before_initialization_come_first():
    nlp = make_nlp()
    pipe = nlp.get_pipe("ner_crf")
    assert pipe.add_label("ZOO") == 1
    assert pipe.add_label("ZOO") == 0
    nlp.initialize(lambda: make_examples(nlp))
    assert pipe.labels == ("ZOO", *LABELS)
    assert pipe.model.get_ref("output_layer").get_dim("nO") == len(pipe.tags)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_new_label_leaves_learnt_scores_as_they_are(scheme):
    nlp = train_nlp(tag_scheme=scheme)
    pipe = nlp.get_pipe("ner_crf")
    before, n_tags = predict_scores(nlp), len(pipe.tags)
    assert pipe.add_label("NEW") == 1
    after = predict_scores(nlp)
    assert len(pipe.tags) == after.emissions.shape[1] == n_tags + len(pipe.tag_scheme.prefixes)
    for old, new in zip(before.arrays, after.arrays, strict=True):
        part = new[..., :n_tags] if new is not after.transitions else new[:n_tags, :n_tags]
        numpy.testing.assert_allclose(part, old, atol=1e-6)
    assert nlp.evaluate(make_examples(nlp))["ents_f"] == 1.0


def test_a_new_label_is_learnt_and_saved(trained_bytes):
    nlp = load_trained(trained_bytes)
    nlp.get_pipe("ner_crf").add_label("NEW")
    optimizer = nlp.resume_training()
    optimizer.learn_rate = 0.02
    sentences = [*SENTENCES, ("the Quux sold a Flurb yesterday", [(1, 2, "NEW"), (4, 5, "NEW")])]
    for _ in range(25):
        nlp.update(make_examples(nlp, sentences), sgd=optimizer)
    assert nlp.evaluate(make_examples(nlp, sentences))["ents_f"] == 1.0
    loaded = make_nlp().from_bytes(nlp.to_bytes())
    assert loaded.get_pipe("ner_crf").labels == (*LABELS, "NEW")
    assert_same_predictions(nlp, loaded)


def test_a_label_may_be_added_between_updates_of_one_optimizer():
    nlp = make_nlp()
    optimizer = train(nlp, n_steps=3)
    nlp.get_pipe("ner_crf").add_label("NEW")
    for _ in range(30):
        nlp.update(make_examples(nlp), sgd=optimizer)
    with nlp.use_params(optimizer.averages):
        assert nlp.evaluate(make_examples(nlp))["ents_f"] == 1.0


def test_a_copy_has_labels_of_its_own(trained_bytes):
    nlp = load_trained(trained_bytes)
    copied = copy.deepcopy(nlp)
    copied.get_pipe("ner_crf").add_label("NEW")
    assert nlp.get_pipe("ner_crf").labels == LABELS
    assert_same_predictions(nlp, load_trained(trained_bytes))
    assert predict_ents(copied)


@pytest.mark.parametrize("way", ["load the pipeline", "load the pipe", "add a label"])
def test_labels_outlive_a_memory_zone(trained, trained_bytes, way):
    nlp = make_nlp() if way != "add a label" else load_trained(trained_bytes)
    pipe = nlp.get_pipe("ner_crf")
    with nlp.memory_zone():
        if way == "load the pipeline":
            nlp.from_bytes(trained_bytes)
        elif way == "load the pipe":
            pipe.from_bytes(trained.get_pipe("ner_crf").to_bytes(exclude=["vocab"]))
        else:
            pipe.add_label("PASSING")
    assert pipe.labels[:3] == LABELS
    assert all(label in nlp.vocab.strings for label in pipe.labels)
    assert any(predict_ents(nlp))


def test_resumed_training_goes_on(trained_bytes):
    nlp = load_trained(trained_bytes)
    optimizer = nlp.resume_training()
    losses = [nlp.update(make_examples(nlp), sgd=optimizer)["ner_crf"] for _ in range(3)]
    assert all(numpy.isfinite(losses))
    assert nlp.evaluate(make_examples(nlp))["ents_f"] == 1.0


def test_initializing_anew_forgets(trained_bytes):
    nlp = load_trained(trained_bytes)
    nlp.initialize(lambda: make_examples(nlp, SENTENCES[:2]))
    assert nlp.get_pipe("ner_crf").labels == LABELS
    assert nlp.update(make_examples(nlp))["ner_crf"] > 1.0


# Files


@pytest.mark.parametrize("way", ["disk", "bytes", "pickle", "deepcopy", "pickled pipe", "pipe bytes", "pipe disk"])
def test_round_trips_predict_the_same_to_the_last_bit(trained_in_scheme, way, tmp_path):
    nlp = trained_in_scheme
    pipe = nlp.get_pipe("ner_crf")
    if way == "disk":
        nlp.to_disk(tmp_path)
        other = spacy.load(tmp_path)
    elif way == "bytes":
        other = make_nlp(tag_scheme=pipe.tag_scheme.name).from_bytes(nlp.to_bytes())
    elif way == "pickle":
        other = pickle.loads(pickle.dumps(nlp))
    elif way == "deepcopy":
        other = copy.deepcopy(nlp)
    else:
        other = make_nlp(tag_scheme=pipe.tag_scheme.name)
        if way == "pickled pipe":
            loaded = pickle.loads(pickle.dumps(pipe))
            other = spacy.blank("en", vocab=loaded.vocab)
            other._components = [("ner_crf", loaded)]
        elif way == "pipe bytes":
            other.get_pipe("ner_crf").from_bytes(pipe.to_bytes())
        else:
            pipe.to_disk(tmp_path / "pipe")
            other.get_pipe("ner_crf").from_disk(tmp_path / "pipe")
    assert other.get_pipe("ner_crf").labels == LABELS
    assert_same_predictions(nlp, other)


def test_a_pipeline_that_is_not_initialized_can_be_stored(tmp_path):
    nlp = make_nlp()
    nlp.get_pipe("ner_crf").add_label("PER")
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    assert loaded.get_pipe("ner_crf").labels == ("PER",)
    train(loaded)
    assert loaded.evaluate(make_examples(loaded))["ents_f"] == 1.0


def test_files_hold_no_pickle(trained, tmp_path):
    trained.get_pipe("ner_crf").to_disk(tmp_path)
    data = (tmp_path / "model").read_bytes()
    # How pickles of classes, and torch's archives, name what they load.
    assert not any(
        mark in data for mark in (b"ctorch", b"cnumpy", b"_rebuild", b"PK\x03\x04", b"\x80\x02c", b"\x80\x04\x95")
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cfg", "model", "vocab"]


def test_loading_over_a_trained_pipeline_replaces_it(trained_bytes):
    nlp = make_nlp()
    train(nlp, n_steps=1, sentences=SENTENCES)
    nlp.from_bytes(trained_bytes)
    assert_same_predictions(nlp, load_trained(trained_bytes))


# Batches


def test_predict_does_not_change_documents(trained):
    docs = [trained.make_doc(text) for text in TEXTS]
    before = [doc.to_bytes() for doc in docs]
    trained.get_pipe("ner_crf").predict(docs)
    assert [doc.to_bytes() for doc in docs] == before


def test_batches_do_not_change_what_is_found(trained):
    together = predict_ents(trained)
    assert [get_ents(trained(text)) for text in TEXTS] == together
    for batch_size in (1, 2, 3):
        assert [get_ents(doc) for doc in trained.pipe(TEXTS, batch_size=batch_size)] == together
    assert predict_ents(trained, TEXTS[::-1]) == together[::-1]


def test_no_documents(trained):
    pipe = trained.get_pipe("ner_crf")
    assert list(trained.pipe([])) == []
    pipe.set_annotations([], pipe.predict([]))
    assert pipe.update([], sgd=None) == {"ner_crf": 0.0}


def test_tokens_outside_of_entities_are_said_to_be_outside(trained):
    doc = trained("Nothing happens here .")
    assert [token.ent_iob_ for token in doc] == ["O"] * 4
    assert doc.has_annotation("ENT_IOB")


def test_the_scorer_can_be_left_out():
    nlp = make_nlp(scorer=None)
    assert nlp.get_pipe("ner_crf").score(make_examples(nlp)) == {}


def test_two_recognizers_have_names_and_losses_of_their_own():
    nlp = make_nlp()
    nlp.add_pipe("ner_crf", name="second", config={"overwrite": True})
    nlp.initialize(lambda: make_examples(nlp))
    assert nlp.update(make_examples(nlp)).keys() == {"ner_crf", "second"}


def test_factory_and_architecture_are_registered():
    assert registry.factories.get("ner_crf")
    assert registry.architectures.get("spacy-bilstm-crf.BiLSTMCRF.v1")
    assert spacy.blank("en").get_factory_meta("ner_crf").assigns == ["doc.ents", "token.ent_iob", "token.ent_type"]


def test_references_of_other_tokens_are_learnt():
    nlp = make_nlp()

    def make():
        predicted = Doc(nlp.vocab, words=["Anna", "-", "Lena", "lives", "in", "Paris"])
        reference = Doc(nlp.vocab, words=["Anna-Lena", "lives", "in", "Paris"])
        reference.ents = [Span(reference, 0, 1, "PER"), Span(reference, 3, 4, "LOC")]
        return [Example(predicted, reference)]

    optimizer = nlp.initialize(make)
    optimizer.learn_rate = 0.05
    for _ in range(40):
        nlp.update(make(), sgd=optimizer)
    doc = nlp.get_pipe("ner_crf")(make()[0].predicted)
    assert get_ents(doc) == [(0, 3, "PER"), (5, 6, "LOC")]
