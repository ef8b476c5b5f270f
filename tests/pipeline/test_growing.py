import copy

import numpy
import pytest
import spacy
from enumeration import SCHEMES, Paths, log_sum, make_potentials, posterior
from spacy.training import Example
from spacy.util import fix_random_seed
from tiny_pipelines import (
    LABELS,
    SENTENCES,
    get_ents,
    make_examples,
    make_nlp,
    predict_ents,
    predict_scores,
    train,
    train_nlp,
)

from spacy_bilstm_crf.objectives import rehearsal_loss_and_gradient
from spacy_bilstm_crf.tag_scheme import TagScheme
from spacy_bilstm_crf.types import AllowedTransitions

RAW = ["Carla Diaz works at Globex .", "Emil Holm left Oslo", "Paris bought Initech from Acme Corp ."]
NEW = ("the Quux sold a Flurb yesterday", [(1, 2, "NEW"), (4, 5, "NEW")])


def load(trained_bytes, **settings):
    return make_nlp(**settings).from_bytes(trained_bytes)


def make_raw(nlp, texts=RAW):
    return [Example.from_dict(nlp.make_doc(text), {}) for text in texts]


def get_weights(model):
    """All weights, of Thinc's layers and of torch's."""
    arrays = {f"{n.name}.{i}.{p}": n.get_param(p) for i, n in enumerate(model.walk()) for p in n.param_names}
    network = model.get_ref("output_layer").shims[0].network
    arrays.update((name, tensor.detach().numpy()) for name, tensor in network.named_parameters())
    return {name: array.copy() for name, array in arrays.items()}


def divergence(nlp, texts=RAW):
    """How far the pipe is from the model it rehearses: a rehearsal that changes nothing."""
    losses = copy.deepcopy(nlp.get_pipe("ner_crf")).rehearse(make_raw(nlp, texts), sgd=None)
    return losses["ner_crf"]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("constrained", [True, False])
def test_new_labels_change_no_learnt_score_by_a_bit(scheme, constrained):
    nlp = train_nlp(tag_scheme=scheme, model={"constrained": constrained})
    pipe = nlp.get_pipe("ner_crf")
    before, entities = predict_scores(nlp), predict_ents(nlp)
    for n_labels in range(1, 6):
        pipe.add_label(f"NEW{n_labels}")
        after = predict_scores(nlp)
        assert after.emissions.shape[1] == len(pipe.tags)
        for old, kept in zip(before.arrays, after.first_tags(before.emissions.shape[1]).arrays, strict=True):
            numpy.testing.assert_array_equal(kept, old)
        assert predict_ents(nlp) == entities


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_path_with_a_new_label_scores_as_the_known_ones_on_average_less_a_margin(scheme):
    nlp = make_nlp(tag_scheme=scheme)
    nlp.initialize(lambda: make_examples(nlp))
    pipe = nlp.get_pipe("ner_crf")
    rng = numpy.random.default_rng(0)
    network = pipe.model.get_ref("output_layer").shims[0].network
    for parameter in network.parameters():
        parameter.data += parameter.data.new_tensor(rng.standard_normal(parameter.shape))
    pipe.add_label("NEW")
    doc = nlp.make_doc("Bob left Paris")
    potentials = pipe.model.predict([doc])

    def score(label):
        tags = [pipe.tags.index(tag) for tag in pipe.tag_scheme.spans_to_tags([(0, 2, label)], 3)]
        scores = potentials.start_transitions[tags[0]] + potentials.end_transitions[tags[-1]]
        scores += potentials.emissions[range(3), tags].sum()
        return scores + potentials.transitions[tags[:-1], tags[1:]].sum()

    assert score("NEW") == pytest.approx(numpy.mean([score(label) for label in LABELS]) - 2 * 5.0, abs=1e-4)


def test_the_first_label_of_all_can_be_added_to_a_model():
    nlp = make_nlp()
    pipe = nlp.get_pipe("ner_crf")
    pipe.model.get_ref("output_layer").set_dim("nO", 1)
    pipe.model.initialize(X=[nlp.make_doc("Bob left Paris")])
    pipe.add_label("PER")
    scores = pipe.model.predict([nlp.make_doc("Bob")])
    assert scores.emissions.shape == (1, 5)
    assert all(numpy.isfinite(array).all() for array in scores.arrays)


def test_a_new_label_is_hardly_probable_and_soon_learnt(trained_bytes):
    nlp = load(trained_bytes)
    pipe = nlp.get_pipe("ner_crf")
    known = pipe.marginals([nlp.make_doc(text) for text, _ in SENTENCES])
    pipe.add_label("NEW")
    grown = pipe.marginals([nlp.make_doc(text) for text, _ in SENTENCES])
    for old, new in zip(known, grown, strict=True):
        assert new[:, old.shape[1] :].sum(axis=1).max() < 0.05
        numpy.testing.assert_allclose(new[:, : old.shape[1]], old, atol=0.05)
    optimizer = nlp.resume_training()
    optimizer.learn_rate = 0.02
    for _ in range(15):
        nlp.update(make_examples(nlp, [*SENTENCES, NEW]), sgd=optimizer)
    assert get_ents(nlp(NEW[0])) == NEW[1]
    assert nlp.evaluate(make_examples(nlp, [*SENTENCES, NEW]))["ents_f"] == 1.0


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("n_earlier_labels", [1, 2])
def test_the_divergence_equals_enumeration(scheme, n_earlier_labels):
    labels = ["PER", "LOC"]
    rng = numpy.random.default_rng(0)
    tags = TagScheme(scheme)
    n_tags, n_earlier = len(tags.tags(labels)), len(tags.tags(labels[:n_earlier_labels]))
    now, before = (make_potentials(rng, [3], size) for size in (n_tags, n_earlier))
    possible = numpy.ones((3, n_tags), dtype=bool)
    possible[1, 1:] = rng.random(n_tags - 1) < 0.8
    allowed = AllowedTransitions(*tags.allowed_transitions(labels))
    loss, gradient = rehearsal_loss_and_gradient(now, before, allowed, possible)
    paths = Paths(scheme, labels[:n_earlier_labels], 3)
    chosen = possible[1, paths.ids[:, 1]]
    scores = [paths.scores(potentials) for potentials in (now, before)]
    new, old = (score - log_sum(score[chosen]) for score in scores)
    probability = posterior(scores[1], chosen)
    assert loss == pytest.approx((probability * (old - new))[chosen].sum(), abs=1e-5)
    difference = posterior(scores[0], chosen) - probability
    for got, expected in zip(gradient.arrays, paths.expected_counts(before, difference), strict=True):
        inner = tuple(slice(size) for size in expected.shape)
        numpy.testing.assert_allclose(got[inner], expected, atol=1e-5)
        rest = got.copy()
        rest[inner] = 0
        assert not rest.any(), "tags that the earlier model does not know get no gradient"


def test_without_resumed_training_there_is_nothing_to_rehearse(trained_bytes):
    nlp = load(trained_bytes)
    before = get_weights(nlp.get_pipe("ner_crf").model)
    assert nlp.rehearse(make_raw(nlp)) == {"ner_crf": 0.0}
    assert all((array == before[name]).all() for name, array in get_weights(nlp.get_pipe("ner_crf").model).items())


@pytest.mark.parametrize("model", [{}, {"lr_scale": 0.5}, {"crf": False}, {"constrained": False}])
def test_weights_move_under_nlp_rehearse_once_the_model_has_changed(model):
    nlp = train_nlp(model=model)
    optimizer = nlp.resume_training()
    optimizer.learn_rate = 0.01
    assert divergence(nlp) == pytest.approx(0.0, abs=1e-6)
    for _ in range(10):
        nlp.update(make_examples(nlp, [("Carla Diaz works", [(0, 2, "ORG")])]), sgd=optimizer)
    drifted = divergence(nlp)
    assert drifted > 0.1
    before = get_weights(nlp.get_pipe("ner_crf").model)
    for _ in range(20):
        losses = nlp.rehearse(make_raw(nlp), sgd=optimizer)
    moved = [
        name for name, array in get_weights(nlp.get_pipe("ner_crf").model).items() if (array != before[name]).any()
    ]
    assert any(name.startswith("hashembed") for name in moved)
    assert {"output.weight", "forward_layers.0.weight_ih_l0"} <= set(moved)
    assert ("transitions" in moved) == model.get("crf", True)
    assert divergence(nlp) < drifted / 2
    assert losses["ner_crf"] < drifted


def test_the_first_rehearsal_reports_no_loss_and_changes_nothing_much(trained_bytes):
    nlp = load(trained_bytes)
    nlp.resume_training()
    losses = nlp.get_pipe("ner_crf").rehearse(make_raw(nlp), losses={"ner_crf": 1.0})
    assert losses["ner_crf"] == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("texts", [[], [""], ["", "   "]])
def test_rehearsing_on_nothing(trained_bytes, texts):
    nlp = load(trained_bytes)
    nlp.resume_training()
    assert nlp.rehearse(make_raw(nlp, texts)).get("ner_crf", 0.0) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("added_first", [True, False])
def test_new_labels_are_learnt_while_old_ones_are_rehearsed(trained_bytes, added_first):
    nlp = load(trained_bytes)
    pipe = nlp.get_pipe("ner_crf")
    if added_first:
        pipe.add_label("NEW")
    optimizer = nlp.resume_training()
    optimizer.learn_rate = 0.01
    if not added_first:
        pipe.add_label("NEW")
    old = len(pipe.tags) - len(pipe.tag_scheme.prefixes)
    assert pipe._n_earlier_tags == old
    texts = [text for text, _ in SENTENCES] + [NEW[0]]
    for _ in range(20):
        nlp.update(make_examples(nlp, [NEW]), sgd=optimizer)
        nlp.rehearse(make_raw(nlp, texts), sgd=optimizer)
    assert get_ents(nlp(NEW[0])) == NEW[1]
    assert nlp.evaluate(make_examples(nlp))["ents_f"] >= 0.9


def test_rehearsal_prevents_forgetting():
    scores = {}
    for rehearses in (True, False):
        nlp = train_nlp()
        optimizer = nlp.resume_training()
        optimizer.learn_rate = 0.02
        fix_random_seed(0)
        for _ in range(20):
            nlp.update(make_examples(nlp, [("Emil Holm walked home slowly", [])]), sgd=optimizer)
            if rehearses:
                nlp.rehearse(make_raw(nlp, [text for text, _ in SENTENCES]), sgd=optimizer)
        scores[rehearses] = nlp.evaluate(make_examples(nlp))["ents_f"]
    assert scores[True] >= scores[False] + 0.2


def test_a_label_is_rehearsed_once_it_has_been_trained(trained_bytes):
    nlp = load(trained_bytes)
    pipe = nlp.get_pipe("ner_crf")
    pipe.add_label("NEW")
    nlp.update(make_examples(nlp, [NEW]), sgd=nlp.create_optimizer())
    nlp.resume_training()
    assert pipe._n_earlier_tags == len(pipe.tags)


def test_rehearsal_is_refused_behind_a_listener():
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec")
    tok2vec = {"@architectures": "spacy.Tok2VecListener.v1", "width": 96, "upstream": "tok2vec"}
    model = {"@architectures": "spacy-bilstm-crf.BiLSTMCRF.v1", "tok2vec": tok2vec}
    pipe = nlp.add_pipe("ner_crf", config={"model": model})
    train(nlp, n_steps=2)
    nlp.resume_training()
    with pytest.raises(ValueError, match="CRF313"):
        nlp.rehearse(make_raw(nlp))
    assert nlp.rehearse(make_raw(nlp), exclude=["ner_crf"]) == {}
    nlp.replace_listeners("tok2vec", "ner_crf", ["model.tok2vec"])
    nlp.resume_training()
    nlp.rehearse(make_raw(nlp), exclude=["tok2vec"])
    assert pipe.model.get_ref("tok2vec").name != "tok2vec-listener"


def test_gradients_of_rehearsal_add_up_without_an_optimizer(trained_bytes):
    nlp = load(trained_bytes)
    pipe = nlp.get_pipe("ner_crf")
    optimizer = nlp.resume_training()
    nlp.update(make_examples(nlp), sgd=optimizer)
    before = get_weights(pipe.model)
    pipe.rehearse(make_raw(nlp))
    assert all((array == before[name]).all() for name, array in get_weights(pipe.model).items())
    pipe.finish_update(optimizer)
    assert (get_weights(pipe.model)["output.weight"] != before["output.weight"]).any()


def test_a_stored_pipeline_rehearses_nothing(trained_bytes):
    nlp = load(trained_bytes)
    nlp.resume_training()
    assert load(nlp.to_bytes()).get_pipe("ner_crf")._rehearsal_model is None
