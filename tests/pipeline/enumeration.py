"""What the CRF must give, by looking at every tag path there is. Written for clarity rather than speed."""

import itertools

import numpy
import spacy
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import Model

from spacy_bilstm_crf.pipeline.ner_crf import NERCRF
from spacy_bilstm_crf.tag_scheme import TagScheme
from spacy_bilstm_crf.types import CRFPotentials

SCHEMES = ["BIO", "BIOES", "IO", "BMES"]
VOCAB = spacy.blank("en").vocab


def make_potentials(rng, lengths, n_tags, scale=1.0):
    """Random scores for a batch."""
    draw = lambda *shape: (scale * rng.standard_normal(shape)).astype("float32")  # noqa: E731
    lengths = numpy.asarray(lengths, dtype="int64")
    return CRFPotentials(draw(lengths.sum(), n_tags), lengths, draw(n_tags, n_tags), draw(n_tags), draw(n_tags))


def make_pipe(scheme, labels, *, potentials=None, constrained=True, **settings):
    """An entity recognizer whose model answers with given scores."""
    n_tags = len(TagScheme(scheme).tags(labels))
    model = Model(
        "answers",
        lambda model, docs, is_train: (model.attrs["potentials"], lambda d_potentials: docs),
        dims={"nO": n_tags},
        attrs={"constrained": constrained, "potentials": potentials, "resize_output": lambda model, nO, like: model},
    )
    model.set_ref("output_layer", model)
    pipe = NERCRF(VOCAB, model, tag_scheme=scheme, **settings)
    pipe.cfg["labels"] = list(labels)
    return pipe


def make_example(words, reference=None, predicted=None):
    """An example of documents with these words and these keyword arguments."""
    return Example(Doc(VOCAB, words=words, **(predicted or {})), Doc(VOCAB, words=words, **(reference or {})))


class Paths:
    """All legal tag paths of a document, as arrays and as tags."""

    def __init__(self, scheme, labels, n_tokens, constrained=True):
        self.scheme = TagScheme(scheme)
        self.labels = labels
        self.tags = self.scheme.tags(labels)
        ids = itertools.product(range(len(self.tags)), repeat=n_tokens)
        self.ids = numpy.array(list(ids), dtype="int64").reshape(-1, n_tokens)
        if constrained and n_tokens:
            lengths = numpy.full(len(self.ids), n_tokens)
            self.ids = self.ids[self.scheme.is_legal(self.ids.ravel(), lengths, labels)]
        self.paths = [[self.tags[i] for i in ids] for ids in self.ids]
        self.spans = [self.scheme.tags_to_spans(path) for path in self.paths]

    def scores(self, potentials):
        """Score of each path, for a batch of one document."""
        ids = self.ids
        if not ids.shape[1]:
            return numpy.zeros(len(ids))
        emissions, transitions, starts, ends = (array.astype("float64") for array in potentials.arrays)
        scores = starts[ids[:, 0]] + ends[ids[:, -1]]
        for i in range(ids.shape[1]):
            scores = scores + emissions[i, ids[:, i]]
        for i in range(1, ids.shape[1]):
            scores = scores + transitions[ids[:, i - 1], ids[:, i]]
        return scores

    def select(self, predicate):
        """Which paths a predicate on (tags, spans) is true for."""
        chosen = [predicate(path, spans) for path, spans in zip(self.paths, self.spans, strict=True)]
        return numpy.array(chosen, dtype=bool)

    def expected_counts(self, potentials, weights):
        """Weighted sums of what each path uses: tags at tokens, moves, starts and ends."""
        parts = [numpy.zeros(array.shape) for array in potentials.arrays]
        emissions, transitions, starts, ends = parts
        for path, weight in zip(self.ids, weights, strict=True):
            if not weight or not len(path):
                continue
            emissions[numpy.arange(len(path)), path] += weight
            numpy.add.at(transitions, (path[:-1], path[1:]), weight)
            starts[path[0]] += weight
            ends[path[-1]] += weight
        return parts


def log_sum(scores):
    """Log of the summed exponentials."""
    return numpy.logaddexp.reduce(scores) if len(scores) else -numpy.inf


def posterior(scores, chosen):
    """Probability of each path among the chosen ones."""
    return numpy.where(chosen, numpy.exp(scores - log_sum(scores[chosen])), 0.0)


def assert_loss(pipe, example, potentials, expected_loss, expected_gradient):
    """Compare a pipe's loss and gradient for one document."""
    loss, gradient = pipe.get_loss([example], potentials)
    numpy.testing.assert_allclose(loss, expected_loss, atol=1e-5, rtol=1e-5)
    for got, expected in zip(gradient.arrays, expected_gradient, strict=True):
        numpy.testing.assert_allclose(got, expected, atol=1e-4)


# Prefixes that always begin an entity, always end one, always continue one, always have another token after them.
ALWAYS = {
    "BIO": ("B", "", "I", ""),
    "BIOES": ("BS", "ES", "IE", "BI"),
    "IO": ("", "", "", ""),
    "BMES": ("BS", "ES", "ME", "BM"),
}


def obeys_structure(scheme, is_space, starts_sentence, outranked=()):
    """A predicate: as far as tags can say, no entity begins or ends on white space or crosses a sentence start.

    It says nothing of tokens for which something else outranks it.
    """
    begins, ends, continues, goes_on = ALWAYS[scheme]

    def predicate(tags, spans):
        for i, tag in enumerate(tags):
            crosses = i > 0 and starts_sentence[i]
            if i not in outranked and ((is_space[i] and tag[0] in begins + ends) or (crosses and tag[0] in continues)):
                return False
            if i - 1 not in outranked and crosses and tags[i - 1][0] in goes_on:
                return False
        return True

    return predicate


def read_entities(scheme, tags, is_space, starts_sentence):
    """The entities of a path: cut at sentence starts, without white space at their ends."""
    borders = [i for i in range(len(tags)) if i == 0 or starts_sentence[i]]
    entities = []
    for start, end in zip(borders, [*borders[1:], len(tags)], strict=True):
        for first, last, label in TagScheme(scheme).tags_to_spans(tags[start:end]):
            first, last = first + start, last + start
            while first < last and is_space[first]:
                first += 1
            while first < last and is_space[last - 1]:
                last -= 1
            if first < last:
                entities.append((first, last, label))
    return entities
