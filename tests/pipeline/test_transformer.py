"""The recognizer behind a transformer, a tiny one with random weights."""

import numpy
import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import Adam
from tiny_encoder import make_encoder
from tiny_pipelines import TEXTS, assert_same_predictions, make_config, make_examples, predict_ents, train

pytest.importorskip("spacy_transformers")
pytest.importorskip("transformers")

LISTENER = {
    "@architectures": "spacy-transformers.TransformerListener.v1",
    "grad_factor": 1.0,
    "pooling": {"@layers": "reduce_mean.v1"},
}


@pytest.fixture(scope="module")
def encoder_path(tmp_path_factory):
    return make_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module", params=[0, 1], ids=["depth-0", "depth-1"])
def behind_transformer(request, encoder_path):
    nlp = spacy.blank("en")
    encoder = {"@architectures": "spacy-transformers.TransformerModel.v3", "name": str(encoder_path)}
    nlp.add_pipe("transformer", config={"model": {**encoder, "tokenizer_config": {"use_fast": True}}})
    nlp.add_pipe("ner_crf", config=make_config(tok2vec=LISTENER, model={"depth": request.param}))
    train(nlp, n_steps=40, drop=0.0, learn_rate=0.01)
    return nlp


def test_sentences_are_learnt_by_heart(behind_transformer):
    assert behind_transformer.evaluate(make_examples(behind_transformer))["ents_f"] == 1.0


def test_it_is_stored_and_loaded(behind_transformer, tmp_path):
    behind_transformer.to_disk(tmp_path)
    assert predict_ents(spacy.load(tmp_path)) == predict_ents(behind_transformer)


def test_the_recognizer_alone_may_take_the_transformer_with_it(behind_transformer, tmp_path):
    behind_transformer.to_disk(tmp_path / "listening")
    nlp = spacy.load(tmp_path / "listening")
    nlp.replace_listeners("transformer", "ner_crf", ["model.tok2vec"])
    nlp.remove_pipe("transformer")
    assert predict_ents(nlp) == predict_ents(behind_transformer)
    nlp.to_disk(tmp_path / "alone")
    assert_same_predictions(spacy.load(tmp_path / "alone"), nlp)


def test_a_label_is_added_behind_a_transformer(behind_transformer, tmp_path):
    behind_transformer.to_disk(tmp_path)
    nlp = spacy.load(tmp_path)
    nlp.get_pipe("ner_crf").add_label("EVENT")
    assert predict_ents(nlp) == predict_ents(behind_transformer)
    losses = nlp.update(make_examples(nlp), sgd=nlp.resume_training())
    assert set(losses) == {"transformer", "ner_crf"}


def test_no_token_at_all(behind_transformer):
    assert predict_ents(behind_transformer, ["", " ", TEXTS[0]])[0] == []


def make_long_example(nlp, n_tokens=700):
    """A document of many windows, with tokens without pieces: white space, a joiner, and what is cut off a window."""
    words = [*TEXTS[0].split(), "\n\n", "\u200d", "x" * 600] * (n_tokens // 8)
    reference = Doc(nlp.vocab, words=words)
    reference.set_ents([reference.char_span(0, len("Carla Diaz"), "PER")], default="outside")
    return Example(Doc(nlp.vocab, words=words), reference)


def test_long_documents_and_tokens_without_pieces(behind_transformer, tmp_path):
    behind_transformer.to_disk(tmp_path)
    nlp = spacy.load(tmp_path)
    example = make_long_example(nlp)
    doc = nlp.get_pipe("transformer")(example.predicted.copy())
    aligned = doc._.trf_data.align.lengths
    assert sum(doc._.trf_data.wordpieces.lengths) > 512
    assert (aligned == 0).any()
    assert len(nlp.get_pipe("ner_crf")(doc)) == len(doc)
    optimizer = nlp.resume_training()
    losses = [nlp.update([make_long_example(nlp), *make_examples(nlp)], sgd=optimizer)["ner_crf"] for _ in range(2)]
    assert numpy.isfinite(losses).all()
    for node in nlp.get_pipe("ner_crf").model.walk():
        for shim in node.shims:
            assert all(bool(weight.isfinite().all()) for weight in shim._model.parameters())


def test_a_window_gives_long_documents_the_vectors_of_short_ones(behind_transformer):
    """Far apart in a long document, the same words are read in windows of their own, and found alike."""
    text = " ".join([TEXTS[0]] * 120)
    (ents,) = predict_ents(behind_transformer, [text])
    n_found = len(predict_ents(behind_transformer, [TEXTS[0]])[0])
    assert n_found
    assert len(ents) > 60 * n_found


def test_lr_scale_is_of_the_recognizer_alone(encoder_path):
    """With Adam a first step is as long as the learning rate: the recognizer's is so many times the encoder's."""
    nlp = spacy.blank("en")
    encoder = {"@architectures": "spacy-transformers.TransformerModel.v3", "name": str(encoder_path)}
    nlp.add_pipe("transformer", config={"model": {**encoder, "tokenizer_config": {"use_fast": True}}})
    nlp.add_pipe("ner_crf", config=make_config(tok2vec=LISTENER, model={"depth": 0, "lr_scale": 20.0}))
    nlp.initialize(lambda: make_examples(nlp))
    # spaCy applies the gradients of a shared encoder with the next update.
    nlp.update(make_examples(nlp), sgd=Adam(0.0))
    modules = {
        name: next(s._model for n in nlp.get_pipe(name).model.walk() for s in n.shims) for name in nlp.pipe_names
    }
    before = {name: [weight.detach().clone() for weight in module.parameters()] for name, module in modules.items()}
    nlp.update(make_examples(nlp), sgd=Adam(1e-4, L2=0.0, grad_clip=0.0))
    largest = {
        name: max(
            float((new.detach() - old).abs().max()) for old, new in zip(before[name], module.parameters(), strict=True)
        )
        for name, module in modules.items()
    }
    assert largest["transformer"] == pytest.approx(1e-4, rel=0.05)
    assert largest["ner_crf"] == pytest.approx(20e-4, rel=0.05)
