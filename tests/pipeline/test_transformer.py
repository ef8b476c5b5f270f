"""The recognizer behind a transformer, a tiny one with random weights."""

import string

import pytest
import spacy
from tiny_pipelines import TEXTS, assert_same_predictions, make_config, make_examples, predict_ents, train

pytest.importorskip("spacy_transformers")
transformers = pytest.importorskip("transformers")

LISTENER = {
    "@architectures": "spacy-transformers.TransformerListener.v1",
    "grad_factor": 1.0,
    "pooling": {"@layers": "reduce_mean.v1"},
}


@pytest.fixture(scope="module")
def encoder_path(tmp_path_factory):
    """A BERT that nobody has trained, which reads single characters."""
    path = tmp_path_factory.mktemp("encoder")
    characters = string.ascii_letters + string.punctuation
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *characters, *(f"##{char}" for char in characters)]
    (path / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizerFast(str(path / "vocab.txt"), do_lower_case=False).save_pretrained(path)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    config = transformers.BertConfig(vocab_size=len(words), max_position_embeddings=256, **sizes)
    transformers.BertModel(config).save_pretrained(path)
    return path


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
