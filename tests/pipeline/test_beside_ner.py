"""The same annotation, given to spaCy's `ner` and to `ner_crf`: what is accepted, learnt and refused."""

import warnings

import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import fix_random_seed
from tiny_pipelines import make_config

WORDS = ["Anna", "met", "Bob", "."]
TOK2VEC = {
    "@architectures": "spacy.HashEmbedCNN.v2",
    "pretrained_vectors": None,
    "width": 16,
    "depth": 1,
    "embed_size": 200,
    "window_size": 1,
    "maxout_pieces": 2,
    "subword_features": True,
}
NER = {
    "@architectures": "spacy.TransitionBasedParser.v2",
    "state_type": "ner",
    "extra_state_tokens": False,
    "hidden_width": 16,
    "maxout_pieces": 2,
    "use_upper": True,
    "tok2vec": TOK2VEC,
}


def make_doc(vocab, words, ents=(), *, negative=(), missing=(), blocked=(), default="outside", **columns):
    doc = Doc(vocab, words=words, **columns)
    parts = {"missing": missing, "blocked": blocked}
    spans = {name: [doc[start:end] for start, end in ranges] for name, ranges in parts.items()}
    doc.set_ents([Span(doc, *ent) for ent in ents], default=default, **spans)
    doc.spans["negative"] = [Span(doc, *span) for span in negative]
    return doc


def make_example(vocab, reference, predicted):
    reference = {"words": WORDS, **reference}
    shared = () if "words" in predicted else ("words", "spaces")
    same = {name: value for name, value in reference.items() if name in shared}
    return Example(make_doc(vocab, **{**same, "default": "missing", **predicted}), make_doc(vocab, **reference))


JOINED = {"words": ["Anna-met", "Bob"]}
SPLIT = {"words": ["Anna", "-", "met", "Bob"], "spaces": [False, False, True, False]}
# Annotation of the reference and of the predicted document, the span that is looked at, and what becomes of it with
# `ner` and with `ner_crf`: True if it is found after training, False if not, None if nothing is learnt about it, or the
# code of the error.
TABLE = {
    "an entity": ({"ents": [(0, 1, "PER")]}, {}, (0, 1, "PER"), True, True),
    "adjacent entities": ({"ents": [(0, 1, "PER"), (1, 2, "PER")]}, {}, (1, 2, "PER"), True, True),
    "no entity": ({}, {}, (0, 1, "PER"), False, False),
    "missing tokens": ({"ents": [(0, 1, "PER")], "missing": [(2, 3)]}, {}, (2, 3, "PER"), None, None),
    "an entity beside missing tokens": ({"ents": [(0, 1, "PER")], "missing": [(1, 4)]}, {}, (0, 1, "PER"), True, True),
    "nothing annotated": ({"default": "missing"}, {}, (0, 1, "PER"), None, None),
    "no tokens": ({"words": []}, {}, (0, 1, "PER"), None, None),
    # A blocked token is unknown to `ner` in training, though it keeps entities off in prediction.
    "a blocked token": ({"blocked": [(0, 1)]}, {}, (0, 1, "PER"), None, False),
    "white space inside": ({"words": ["Anna", " ", "Kaya"], "ents": [(0, 3, "PER")]}, {}, (0, 3, "PER"), True, True),
    "white space first": ({"words": ["met", " ", "Anna"], "ents": [(1, 3, "PER")]}, {}, (1, 3, "PER"), False, "CRF350"),
    "white space alone": ({"words": ["met", " ", "Anna"], "ents": [(1, 2, "PER")]}, {}, (1, 2, "PER"), False, "CRF350"),
    # `ner` keeps white space off the beginning of entities alone.
    "white space last": ({"words": ["Anna", " ", "met"], "ents": [(0, 2, "PER")]}, {}, (0, 2, "PER"), True, "CRF350"),
    "across a sentence start": (
        {"ents": [(1, 3, "PER")]},
        {"sent_starts": [True, False, True, False]},
        (1, 3, "PER"),
        False,
        "CRF350",
    ),
    # `ner` makes room for new labels in the middle of training.
    "an unknown label": ({"ents": [(0, 1, "NEW")]}, {}, (0, 1, "NEW"), True, "CRF350"),
    "an entity on part of a token": ({**SPLIT, "ents": [(0, 1, "PER")]}, JOINED, (0, 1, "PER"), None, None),
    "an entity beside a token of other borders": (
        {**SPLIT, "ents": [(3, 4, "PER")]},
        JOINED,
        (1, 2, "PER"),
        True,
        True,
    ),
    "an entity on several tokens": (
        {**JOINED, "ents": [(0, 1, "PER")]},
        SPLIT,
        (0, 3, "PER"),
        True,
        True,
    ),
    # `ner` takes what stands on the predicted document as given, `ner_crf` goes by the reference.
    "a preset": ({"ents": [(0, 1, "PER")]}, {"ents": [(0, 1, "LOC")]}, (0, 1, "LOC"), None, False),
    "incorrect": ({"default": "missing", "negative": [(0, 1, "PER")]}, {}, (0, 1, "PER"), False, False),
    "incorrect twice": ({"default": "missing", "negative": [(0, 1, "PER")] * 2}, {}, (0, 1, "PER"), False, False),
    "incorrect and overlapping": (
        {"default": "missing", "negative": [(0, 1, "PER"), (0, 2, "PER")]},
        {},
        (0, 1, "PER"),
        False,
        False,
    ),
    "incorrect with another label": (
        {"ents": [(0, 1, "PER")], "negative": [(0, 1, "LOC")]},
        {},
        (0, 1, "PER"),
        True,
        True,
    ),
    "incorrect without label": ({"ents": [(0, 1, "PER")], "negative": [(0, 1, "")]}, {}, (0, 1, "PER"), True, True),
    "incorrect with an unknown label": (
        {"ents": [(0, 1, "PER")], "negative": [(0, 1, "NEW")]},
        {},
        (0, 1, "PER"),
        True,
        True,
    ),
    "incorrect on part of a token": (
        {**SPLIT, "ents": [(3, 4, "PER")], "negative": [(0, 1, "PER")]},
        JOINED,
        (1, 2, "PER"),
        True,
        True,
    ),
    "incorrect and an entity": (
        {"ents": [(0, 1, "PER")], "negative": [(0, 1, "PER")]},
        {},
        (0, 1, "PER"),
        "E868",
        "CRF310",
    ),
    # Ours is an unknown label like any other.
    "a label of spaCy 2": ({"ents": [(0, 1, "!PER")]}, {}, (0, 1, "!PER"), "E869", "CRF350"),
}


def learn(factory, reference, predicted):
    """Train on one example beside another one, and return what is found, with warnings and errors."""
    fix_random_seed(0)
    nlp = spacy.blank("en")
    config = make_config() if factory == "ner_crf" else {"model": NER}
    nlp.add_pipe(factory, config={**config, "incorrect_spans_key": "negative"})
    base = {"words": ["Carla", "saw", "Rome"], "ents": [(0, 1, "PER"), (2, 3, "LOC")]}
    known = make_example(nlp.vocab, base, {})
    optimizer = nlp.initialize(lambda: [known])
    optimizer.learn_rate = 0.02
    example = make_example(nlp.vocab, reference, predicted)
    said = ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            for _ in range(40):
                nlp.update([Example(example.predicted.copy(), example.reference), known], sgd=optimizer)
        except ValueError as error:
            said = str(error)
    said = said or " ".join(str(each.message) for each in caught if "[CRF" in str(each.message))
    doc = make_doc(nlp.vocab, [token.text for token in example.predicted], default="missing")
    return {(ent.start, ent.end, ent.label_) for ent in nlp(doc).ents}, said


@pytest.mark.parametrize("factory", ["ner", "ner_crf"])
@pytest.mark.parametrize("case", TABLE)
def test_annotation_is_accepted_learnt_or_refused_as_the_table_says(case, factory):
    reference, predicted, span, by_ner, by_us = TABLE[case]
    expected = by_ner if factory == "ner" else by_us
    found, said = learn(factory, reference, predicted)
    if isinstance(expected, str):
        assert said.startswith(f"[{expected}]")
        assert factory == "ner" or expected == "CRF310" or span not in found
    else:
        assert not said
        assert expected is None or (span in found) == expected


def test_what_ner_accepts_is_accepted():
    for case, (*_, by_ner, by_us) in TABLE.items():
        # CRF35x are warnings: what they say is left out, and the rest is learnt.
        is_refused = isinstance(by_us, str) and not by_us.startswith("CRF35")
        assert not is_refused or isinstance(by_ner, str), case
