"""What an entity recognizer can say of documents beyond its best guess: further paths, probabilities, marginals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy
from spacy.tokens import Doc, Span

from ..errors import Errors
from ..inference import marginals
from ..probabilities import allowed_log_probs, n_best_paths
from ..types import FloatArray
from .annotation import TagSet
from .entity_batch import EntityBatch
from .entity_output import make_spans, split_by_doc
from .entity_tags import TokenColumns, entity_tags, read_entities


@dataclass
class ScoredPath:
    """A tag path of a document.

    tags (list[str]): A tag for each token.
    ents (tuple[Span, ...]): The entities that are read from it and those that were set before and stay, in order.
    log_prob (float): Its log probability, in nats.
    """

    tags: list[str]
    ents: tuple[Span, ...]
    log_prob: float

    @property
    def prob(self) -> float:
        """RETURNS (float): Its probability."""
        return math.exp(self.log_prob)


def find_n_best(docs: Sequence[Doc], batch: EntityBatch, n: int, tag_set: TagSet) -> list[list[ScoredPath]]:
    """Find the n most probable tag paths of each document.

    docs (Sequence[Doc]): The documents.
    batch (EntityBatch): What the model says of them.
    n (int): Number of paths.
    tag_set (TagSet): The pipe's tags.
    RETURNS (list[list[ScoredPath]]): For each document its paths, all different, most probable first; fewer than n
        where there are no more.
    RAISES (ValueError): CRF322 if n is less than 1.
    """
    if n < 1:
        raise ValueError(Errors.CRF322.format(n=n))
    log_probs, paths = n_best_paths(batch.tempered, n)
    tags = tag_set.scheme.tags(tag_set.labels)
    found: list[list[ScoredPath]] = [[] for _ in docs]
    for scores, path in zip(log_probs.T.tolist(), paths, strict=True):
        entities = batch.read_entities(path)
        places = split_by_doc(entities, batch.columns.lengths)
        for i, (doc, score, (offset, place)) in enumerate(zip(docs, scores, places, strict=True)):
            if score == -math.inf:
                continue
            kept = doc.ents if len(batch.presets.entities) else ()
            ents = sorted([*kept, *make_spans(doc, entities, offset, place, tag_set.labels)])
            found[i].append(ScoredPath([tags[tag] for tag in path[offset : offset + len(doc)]], tuple(ents), score))
    return found


def score_annotation(docs: Sequence[Doc], batch: EntityBatch, tag_set: TagSet) -> FloatArray:
    """Compute how probable the tags are that spell the entities on documents: all of them, and no others.

    Tokens without annotation are left open. What no tag path spells, such as an entity of unknown label, has
    probability 0.

    docs (Sequence[Doc]): The annotated documents.
    batch (EntityBatch): What the model says of them, not bound by their entities.
    tag_set (TagSet): The pipe's tags.
    RETURNS (FloatArray): Log probabilities, in nats.
        (n_docs,) float64
    """
    columns = TokenColumns.from_docs(docs)
    entities = read_entities(columns, tag_set.label_hashes)
    allowed = numpy.zeros((len(columns.ent_iob), tag_set.n_tags), dtype=bool)
    allowed[columns.ent_iob == 0] = True
    allowed[columns.ent_iob != 0, 0] = True  # "O"
    allowed[entities.rows()[0]] = False
    rows, tags = entity_tags(entities, tag_set.scheme)
    allowed[rows, tags] = True
    return allowed_log_probs(batch.tempered, allowed)


def split_marginals(batch: EntityBatch) -> list[numpy.ndarray]:
    """Compute the probability of each tag at each token.

    batch (EntityBatch): What the model says of the documents.
    RETURNS (list[ndarray]): For each document an array whose rows sum to 1.
        (n_tokens, n_tags) float32
    """
    source = batch.tempered
    probabilities = marginals(source.potentials, source.allowed, source.possible_tags)
    ends = numpy.cumsum(batch.columns.lengths).tolist()
    return [probabilities[start:end] for start, end in zip([0, *ends], ends, strict=False)]
