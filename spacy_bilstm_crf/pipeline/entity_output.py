"""What was found in a batch, and how it gets onto the documents."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy
from spacy.tokens import Doc, Span, SpanGroup

from ..types import BoolArray, FloatArray, IntArray
from .entity_tags import Entities


@dataclass
class ScoredEntities:
    """Entities and their probabilities.

    entities (Entities): The entities, by start.
    probabilities (FloatArray): Their probabilities.
        (n_entities,) float64
    """

    entities: Entities
    probabilities: FloatArray

    def select(self, keep: BoolArray) -> "ScoredEntities":
        """Return some of the entities.

        keep (BoolArray): Which.
            (n_entities,) bool
        RETURNS (ScoredEntities): Those.
        """
        return ScoredEntities(self.entities.select(keep), self.probabilities[keep])

    def find(self, entities: Entities) -> IntArray:
        """Look entities up.

        entities (Entities): The entities.
        RETURNS (IntArray): Position of each among these, -1 where it is not among them.
            (n_entities,) int64
        """
        ours = zip(
            self.entities.starts.tolist(), self.entities.ends.tolist(), self.entities.labels.tolist(), strict=True
        )
        places = {row: i for i, row in enumerate(ours)}
        rows = zip(entities.starts.tolist(), entities.ends.tolist(), entities.labels.tolist(), strict=True)
        return numpy.array([places.get(row, -1) for row in rows], dtype="int64")

    def union(self, other: "ScoredEntities") -> "ScoredEntities":
        """Return the entities of both, each once.

        other (ScoredEntities): Further entities.
        RETURNS (ScoredEntities): All, by start, end and label.
        """
        both = [numpy.stack([part.entities.starts, part.entities.ends, part.entities.labels]) for part in (self, other)]
        rows, index = numpy.unique(numpy.concatenate(both, axis=1), axis=1, return_index=True)
        return ScoredEntities(
            Entities(rows[0], rows[1], rows[2]), numpy.concatenate([self.probabilities, other.probabilities])[index]
        )


@dataclass
class EntityPredictions:
    """The entities found in a batch, before they are set.

    tag_ids (IntArray): The best tag path of each document.
        (n_tokens,) int64
    lengths (IntArray): Number of tokens of each document.
        (n_docs,) int64
    entities (Entities): What is to be set, in rows of the batch; earlier entities that stay are not among them.
    has_presets (BoolArray): Which documents have entities or blocked tokens that stay.
        (n_docs,) bool
    probabilities (FloatArray | None): Of the entities, if they were asked for.
        (n_entities,) float64
    spans (ScoredEntities | None): What goes to the span group, if there is to be one.
    """

    tag_ids: IntArray
    lengths: IntArray
    entities: Entities
    has_presets: BoolArray
    probabilities: FloatArray | None = None
    spans: ScoredEntities | None = None


def split_by_doc(entities: Entities, lengths: IntArray) -> Iterator[tuple[int, slice]]:
    """Find each document's entities.

    entities (Entities): Entities of a batch, by start.
    lengths (IntArray): Number of tokens of each document.
        (n_docs,) int64
    YIELDS (tuple[int, slice]): The first row of each document and where its entities are.
    """
    offsets = numpy.append(0, numpy.cumsum(lengths))
    bounds = numpy.searchsorted(entities.starts, offsets).tolist()
    for offset, first, last in zip(offsets[:-1].tolist(), bounds[:-1], bounds[1:], strict=True):
        yield offset, slice(first, last)


def make_spans(doc: Doc, entities: Entities, offset: int, place: slice, labels: Sequence[str]) -> list[Span]:
    """Make Spans of a document's entities.

    doc (Doc): The document.
    entities (Entities): The entities of its batch.
    offset (int): First row of the document.
    place (slice): Where its entities are.
    labels (Sequence[str]): The pipe's labels.
    RETURNS (list[Span]): The Spans.
    """
    # Labels as strings: the document's vocabulary may be another one than the pipe's.
    return [
        Span(doc, start - offset, end - offset, label=labels[label])
        for start, end, label in zip(
            entities.starts[place].tolist(), entities.ends[place].tolist(), entities.labels[place].tolist(), strict=True
        )
    ]


def set_entities(
    docs: Sequence[Doc], found: EntityPredictions, labels: Sequence[str], *, keep_ents: bool, prob_attr: str | None
) -> list[list[Span]]:
    """Put entities into `doc.ents`, and their probabilities where Spans keep them.

    docs (Sequence[Doc]): The documents.
    found (EntityPredictions): What was found in them.
    labels (Sequence[str]): The pipe's labels.
    keep_ents (bool): Whether earlier entities stay.
    prob_attr (str | None): Name of the extension attribute.
    RETURNS (list[list[Span]]): The Spans that were set on each document.
    """
    all_spans = []
    places = split_by_doc(found.entities, found.lengths)
    for doc, has_presets, (offset, place) in zip(docs, found.has_presets.tolist(), places, strict=True):
        spans = make_spans(doc, found.entities, offset, place, labels)
        if has_presets:
            blocked = [doc[token.i : token.i + 1] for token in doc if token.ent_iob == 3 and not token.ent_type]
            doc.set_ents([*(doc.ents if keep_ents else ()), *spans], blocked=blocked)
        else:
            doc.set_ents(spans)
        if prob_attr is not None and found.probabilities is not None:
            for span, probability in zip(spans, found.probabilities[place].tolist(), strict=True):
                span._.set(prob_attr, probability)
        all_spans.append(spans)
    return all_spans


def set_span_groups(
    docs: Sequence[Doc], found: EntityPredictions, ents: Sequence[list[Span]], labels: Sequence[str], key: str
) -> None:
    """Put spans and their scores into `doc.spans`, in the form of spaCy's `spancat`.

    docs (Sequence[Doc]): The documents.
    found (EntityPredictions): What was found in them.
    ents (Sequence[list[Span]]): What was set as entities on each document.
    labels (Sequence[str]): The pipe's labels.
    key (str): The name of the span group.
    """
    if found.spans is None:
        return
    entities, scores = found.spans.entities, found.spans.probabilities.astype("float32")
    places = split_by_doc(entities, found.lengths)
    for doc, spans, (offset, place) in zip(docs, ents, places, strict=True):
        if entities is not found.entities:
            spans = make_spans(doc, entities, offset, place, labels)
        doc.spans[key] = SpanGroup(doc, name=key, attrs={"scores": scores[place]}, spans=spans)
