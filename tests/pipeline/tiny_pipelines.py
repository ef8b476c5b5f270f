"""Pipelines that train within a second, and what they learn."""

import numpy
import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import fix_random_seed
from thinc.api import Adam

# No entities of one label stand side by side, so that every tag scheme can spell them.
SENTENCES = [
    ("Anna Schmidt works at Acme Corp in Berlin .", [(0, 2, "PER"), (4, 6, "ORG"), (7, 8, "LOC")]),
    ("Bob left Paris for Globex .", [(0, 1, "PER"), (2, 3, "LOC"), (4, 5, "ORG")]),
    ("Nothing happens here .", []),
    ("In New York City Carla Diaz met Dan .", [(1, 4, "LOC"), (4, 6, "PER"), (7, 8, "PER")]),
    ("The Bank of Oslo bought Initech from Emil Holm", [(1, 4, "ORG"), (5, 6, "ORG"), (7, 9, "PER")]),
]
LABELS = ("LOC", "ORG", "PER")
TEXTS = [
    "Carla Diaz left Acme Corp .",
    "In Berlin Bob met Anna Schmidt",
    "The Bank of Oslo works in New York City .",
    "unheard words\n\n Zoë Quux, of Initech",
    "Paris",
    "",
    "   ",
]


def make_config(*, tag_scheme="BIOES", tok2vec=None, model=None, **settings):
    """The factory's config, with a model that is tiny."""
    embed = {"@architectures": "spacy.MultiHashEmbed.v2", "width": 16, "include_static_vectors": False}
    embed |= {"attrs": ["NORM", "PREFIX", "SUFFIX", "SHAPE"], "rows": [200, 100, 100, 100]}
    tok2vec = tok2vec or {"@architectures": "spacy-bilstm-crf.WordFormEmbed.v1", "embed": embed}
    network = {"@architectures": "spacy-bilstm-crf.BiLSTMCRF.v1", "hidden_width": 16, "tok2vec": tok2vec}
    return {"tag_scheme": tag_scheme, "model": {**network, **(model or {})}, **settings}


def make_nlp(**settings):
    """A pipeline with an entity recognizer that is not initialized."""
    nlp = spacy.blank("en")
    nlp.add_pipe("ner_crf", config=make_config(**settings))
    return nlp


def make_examples(nlp, sentences=SENTENCES):
    """Examples on the pipeline's vocabulary."""
    examples = []
    for text, entities in sentences:
        reference = Doc(nlp.vocab, words=text.split())
        reference.ents = [Span(reference, start, end, label) for start, end, label in entities]
        examples.append(Example(Doc(nlp.vocab, words=text.split()), reference))
    return examples


def train(nlp, *, n_steps=40, drop=0.1, learn_rate=0.02, sentences=SENTENCES):
    """Overfit. Returns the optimizer, which keeps averages."""
    fix_random_seed(0)
    examples = make_examples(nlp, sentences)
    nlp.initialize(lambda: examples)
    optimizer = Adam(learn_rate, use_averages=True)
    for _ in range(n_steps):
        nlp.update(make_examples(nlp, sentences), sgd=optimizer, drop=drop)
    return optimizer


def train_nlp(**settings):
    """A pipeline that knows its sentences by heart."""
    nlp = make_nlp(**settings)
    train(nlp)
    return nlp


def get_ents(doc):
    """The entities of a document, as values."""
    return [(ent.start, ent.end, ent.label_) for ent in doc.ents]


def predict_ents(nlp, texts=TEXTS):
    """The entities of each text."""
    return [get_ents(doc) for doc in nlp.pipe(texts)]


def predict_scores(nlp, texts=TEXTS):
    """The potentials of all texts, as one batch."""
    return nlp.get_pipe("ner_crf").model.predict([nlp.make_doc(text) for text in texts])


def assert_same_predictions(nlp, other):
    """To the last bit."""
    ours, theirs = predict_scores(nlp), predict_scores(other)
    for left, right in zip(ours.arrays, theirs.arrays, strict=True):
        numpy.testing.assert_array_equal(left, right)
    assert predict_ents(nlp) == predict_ents(other)
    assert any(predict_ents(nlp))
