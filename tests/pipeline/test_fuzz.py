"""Thousands of odd documents and annotations: nothing raises, nothing illegal is found, nothing preset is lost."""

import warnings
from itertools import pairwise

import numpy
import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import fix_random_seed
from tiny_pipelines import make_config

from spacy_bilstm_crf.tag_scheme import TagScheme

LABELS = ["PER", "LOC", "Ä-Ö", "日本"]
WORDS = [
    *["Anna", "met", "Bob", "in", "Rome", ".", ",", "the", "1,000", "U.S.", "don't", "O", "B-PER", "-DOCSTART-"],
    *[" ", "  ", "\n", "\n\n\n", "\t", "\r\n", "\u00a0", "\u3000", "\u2028"],
    *["👩‍👩‍👧", "🏳️‍🌈", "🇩🇪", "😀", "é", "e\u0301", "ﬁ", "ß", "İ", "𝔘𝔫𝔦", "\ud7ff", "�"],
    *["שלום", "مرحبا", "\u202eabc\u202c", "\u200b", "\u200d", "\ufeff", "\u00ad", "日本", "กขค", "नमस्ते"],
    *["a" * 3000, "\u0301" * 200, "😀" * 500, "\x00", "\x1b[0m", "<script>", "%s", "{0}", "'; --"],
]
N_DOCS = 600


class Drawer:
    """Draws odd documents."""

    def __init__(self, seed, vocab):
        self.rng = numpy.random.default_rng(seed)
        self.vocab = vocab
        self.tokenizers = [spacy.blank(lang).make_doc for lang in ("en", "zh")]

    def chance(self, share):
        return self.rng.random() < share

    def pick(self, options):
        return options[int(self.rng.integers(len(options)))]

    def words(self):
        kind = self.pick(["any", "any", "any", "spaces", "one", "none", "long"])
        size = {"one": 1, "none": 0, "long": 60}.get(kind, int(self.rng.integers(1, 12)))
        return [self.pick(WORDS[14:23] if kind == "spaces" else WORDS) for _ in range(size)]

    def pieces(self, n_tokens):
        """Cut tokens into stretches and give each a kind: adjacent entities and every other neighbourhood occur."""
        start = 0
        while start < n_tokens:
            end = min(n_tokens, start + int(self.rng.integers(1, 4)))
            yield start, end, self.pick(["entity", "entity", "unset", "unset", "missing", "blocked"])
            start = end

    def annotate(self, doc, labels):
        parts = {"entity": [], "missing": [], "blocked": [], "unset": []}
        for start, end, kind in self.pieces(len(doc)):
            label = self.pick(labels) if kind == "entity" else ""
            parts[kind].append(Span(doc, start, end, label=label, kb_id="Q1" if kind == "entity" else ""))
        default = self.pick(["outside", "missing"])
        doc.set_ents(parts["entity"], missing=parts["missing"], blocked=parts["blocked"], default=default)
        return doc

    def tags(self, n_tokens):
        scheme = TagScheme(self.pick(["BIO", "BIOES", "IO", "BMES"]))
        tags = scheme.tags([*LABELS, "STRANGE"])
        return scheme.name, [self.pick(tags) if self.chance(0.6) else None for _ in range(n_tokens)]

    def sentence_starts(self, n_tokens):
        return [None if self.chance(0.5) else self.chance(0.3) for _ in range(n_tokens)] if self.chance(0.5) else None

    def predicted(self, words):
        spaces = [self.chance(0.7) for _ in words]
        return Doc(self.vocab, words=words, spaces=spaces, sent_starts=self.sentence_starts(len(words)))

    def preset(self):
        return self.annotate(self.predicted(self.words()), [*LABELS, "STRANGE"])

    def example(self):
        predicted = self.predicted(self.words())
        if self.chance(0.3):
            self.annotate(predicted, LABELS)
        if predicted.text and self.chance(0.3):
            # Other tokens for the same text.
            reference = self.pick(self.tokenizers)(predicted.text)
            reference = Doc(
                self.vocab,
                words=[token.text for token in reference],
                spaces=[bool(token.whitespace_) for token in reference],
            )
        else:
            words = [token.text for token in predicted]
            reference = Doc(self.vocab, words=words, spaces=[bool(token.whitespace_) for token in predicted])
        if self.chance(0.8):
            self.annotate(reference, [*LABELS, "STRANGE"])
        if self.chance(0.3):
            scheme, tags = self.tags(len(reference))
            reference.user_data.update({"crf_tags": tags, "crf_tag_scheme": scheme})
        if self.chance(0.3):
            reference.user_data["crf_labels"] = [label for label in LABELS if self.chance(0.5)]
        if self.chance(0.4) and len(reference):
            reference.spans["negative"] = [span for span in self.incorrect(reference) if self.is_free(span, reference)]
        return Example(predicted, reference)

    def incorrect(self, doc):
        for _ in range(int(self.rng.integers(1, 5))):
            start = int(self.rng.integers(len(doc)))
            end = int(self.rng.integers(start, min(len(doc), start + 5) + 1))
            yield Span(doc, start, end, label=self.pick([*LABELS, "STRANGE", ""]))

    def is_free(self, span, doc):
        # Tokens of other borders may move spans onto one another: compare texts rather than tokens.
        return all((span.text, span.label_) != (ent.text, ent.label_) for ent in doc.ents)


@pytest.fixture(scope="module", params=["BIO", "BIOES", "IO", "BMES"])
def fuzzed(request):
    """A pipeline trained on odd documents."""
    fix_random_seed(0)
    nlp = spacy.blank("en")
    model = {"constrained": request.param != "BMES"}
    config = make_config(tag_scheme=request.param, incorrect_spans_key="negative", model=model)
    pipe = nlp.add_pipe("ner_crf", config=config)
    for label in LABELS:
        pipe.add_label(label)
    drawer = Drawer(1, nlp.vocab)
    examples = [drawer.example() for _ in range(N_DOCS)]
    optimizer = nlp.initialize(lambda: [eg for eg in examples if len(eg.predicted)], sgd=None)
    assert set(LABELS) <= set(pipe.labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for batch in spacy.util.minibatch(examples, size=50):
            losses = nlp.update(batch, sgd=optimizer, drop=0.1)
            assert numpy.isfinite(losses["ner_crf"])
            assert losses["ner_crf"] >= 0.0
    # What was learnt from noise is caution; scores at random find entities everywhere.
    network = pipe.model.get_ref("output_layer").shims[0].network
    network.output.weight.data.normal_(0.0, 3.0)
    return nlp


def test_odd_annotation_is_counted(fuzzed):
    pipe = fuzzed.get_pipe("ner_crf")
    assert pipe.n_unusable_entities > 0
    assert pipe.n_unusable_tags > 0


def read_presets(doc):
    ents = [(ent.start, ent.end, ent.label_, ent.kb_id_) for ent in doc.ents]
    blocked = {token.i for token in doc if token.ent_iob == 3 and not token.ent_type}
    return ents, blocked


def test_odd_documents_are_annotated_legally_and_lose_nothing(fuzzed):
    drawer = Drawer(2, fuzzed.vocab)
    docs = [drawer.preset() if drawer.chance(0.7) else drawer.predicted(drawer.words()) for _ in range(N_DOCS)]
    before = [read_presets(doc) for doc in docs]
    texts = [doc.text for doc in docs]
    annotated = list(fuzzed.pipe(docs, batch_size=64))
    assert [doc.text for doc in annotated] == texts
    n_found = 0
    for doc, (presets, blocked) in zip(annotated, before, strict=True):
        ents, still_blocked = read_presets(doc)
        assert set(presets) <= set(ents)
        assert still_blocked == blocked
        assert all(token.ent_iob for token in doc), "every token is annotated"
        found = [ent for ent in doc.ents if (ent.start, ent.end, ent.label_, ent.kb_id_) not in set(presets)]
        n_found += len(found)
        for ent in found:
            assert ent.label_ in fuzzed.get_pipe("ner_crf").labels
            assert not ent[0].is_space
            assert not ent[-1].is_space
            assert not any(token.is_sent_start for token in ent[1:])
            assert blocked.isdisjoint(range(ent.start, ent.end))
        assert all(first.end <= second.start for first, second in pairwise(doc.ents))
    assert n_found > 100, "a model that finds nothing would pass anything"


def test_what_is_found_does_not_depend_on_batches(fuzzed):
    drawer = Drawer(3, fuzzed.vocab)
    words = [drawer.words() for _ in range(100)]
    docs = [[Doc(fuzzed.vocab, words=each) for each in words] for _ in range(2)]
    together = list(fuzzed.pipe(docs[0], batch_size=100))
    alone = [fuzzed(doc) for doc in docs[1]]
    assert [read_presets(doc) for doc in together] == [read_presets(doc) for doc in alone]
