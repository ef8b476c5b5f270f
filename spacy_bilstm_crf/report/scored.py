"""A model's entities with their probabilities beside the gold ones."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import minibatch

from ..errors import Errors
from ..pipeline.entity_batch import EntityBatch
from ..pipeline.entity_output import ScoredEntities, split_by_doc
from ..pipeline.entity_tags import Entities
from ..pipeline.ner_crf import NERCRF
from ..scaling import Scaling
from ..types import BoolArray, FloatArray


class Gold(NamedTuple):
    """A gold entity.

    start (int): First character.
    end (int): Character after the last one.
    label (str): Its label.
    """

    start: int
    end: int
    label: str


class Predicted(NamedTuple):
    """A predicted entity.

    start (int): First character.
    end (int): Character after the last one.
    label (str): Its label.
    prob (float | None): Its probability; None if it was set by another component.
    """

    start: int
    end: int
    label: str
    prob: float | None

    @property
    def as_gold(self) -> Gold:
        """RETURNS (Gold): What a gold entity must be for this one to be right."""
        return Gold(self.start, self.end, self.label)


@dataclass
class ScoredDoc:
    """A document with what is known and what the model says.

    text (str): The text.
    gold (list[Gold]): The gold entities, in order.
    gold_probs (list[float | None]): The probability that the model gives each; None if it does not fit the tokens or
        the labels.
    predicted (list[Predicted]): The predicted ones, in order, whatever the threshold.
    unknown (list[tuple[int, int]]): Stretches of characters whose annotation is missing.
    """

    text: str
    gold: list[Gold] = field(default_factory=list)
    gold_probs: list[float | None] = field(default_factory=list)
    predicted: list[Predicted] = field(default_factory=list)
    unknown: list[tuple[int, int]] = field(default_factory=list)

    def is_known(self, start: int, end: int) -> bool:
        """Tell whether a stretch of characters is annotated.

        start (int): First character.
        end (int): Character after the last one.
        RETURNS (bool): False if a part of it is not.
        """
        return not any(start < last and first < end for first, last in self.unknown)


@dataclass
class ScoredBatch:
    """A batch of examples and the distribution over their tag paths.

    examples (list[Example]): The examples; their predicted documents are as they come to the component.
    batch (EntityBatch): The distribution.
    entities (Entities): What the best paths say.
    """

    examples: list[Example]
    batch: EntityBatch
    entities: Entities


def find_recognizer(nlp: Language, name: str | None = None) -> tuple[str, NERCRF]:
    """Find the entity recognizer of a pipeline.

    nlp (Language): The pipeline.
    name (str | None): The name of the component; None for the only one there is.
    RETURNS (tuple[str, NERCRF]): Its name and the component.
    RAISES (ValueError): CRF470 if there is none, or more than one and no name.
    """
    found = {pipe_name: pipe for pipe_name, pipe in nlp.pipeline if isinstance(pipe, NERCRF)}
    if name is None and len(found) == 1:
        return next(iter(found.items()))
    if name is None or name not in found:
        raise ValueError(Errors.CRF470.format(name=name, names=", ".join(found) or "none"))
    return name, found[name]


def score_examples(
    nlp: Language, examples: Iterable[Example], *, component: str | None = None, batch_size: int = 128
) -> Iterator[ScoredBatch]:
    """Run a pipeline up to its entity recognizer, and read from that what it says of the examples.

    nlp (Language): The pipeline.
    examples (Iterable[Example]): The examples.
    component (str | None): The name of the recognizer; None for the only one there is.
    batch_size (int): Number of documents at a time.
    YIELDS (ScoredBatch): The batches, in order.
    """
    name, pipe = find_recognizer(nlp, component)
    before = nlp.pipe_names[: nlp.pipe_names.index(name)]
    for group in minibatch(examples, size=batch_size):
        batch_examples = list(group)
        with nlp.select_pipes(enable=before):
            docs = list(nlp.pipe(eg.predicted for eg in batch_examples))
        for example, doc in zip(batch_examples, docs, strict=True):
            example.predicted = doc
        batch = pipe.read_batch(docs, keep_ents=not pipe.cfg["overwrite"])
        yield ScoredBatch(batch_examples, batch, batch.read_entities(batch.best_paths()))


def rescore(batches: Iterable[ScoredBatch], scaling: Scaling) -> FloatArray:
    """Compute the probabilities of all predicted entities with another scaling, which the batches keep.

    batches (Iterable[ScoredBatch]): What the model says.
    scaling (Scaling): The scaling.
    RETURNS (FloatArray): Probabilities, in the order of the entities of the batches.
        (n_entities,) float64
    """
    parts = []
    for scored in batches:
        scored.batch.scaling = scaling
        parts.append(scored.batch.score(scored.entities).probabilities)
    return numpy.concatenate(parts)


def read_scored_docs(scored: ScoredBatch, labels: Sequence[str]) -> list[ScoredDoc]:
    """Put gold and predicted entities side by side, by characters.

    scored (ScoredBatch): What the model says.
    labels (Sequence[str]): The recognizer's labels.
    RETURNS (list[ScoredDoc]): The documents.
    """
    found = scored.batch.score(scored.entities)
    has_presets = len(scored.batch.presets.entities) > 0
    places = split_by_doc(found.entities, scored.batch.columns.lengths)
    gold_probs = _score_gold(scored, labels)
    docs = []
    for example, (offset, place) in zip(scored.examples, places, strict=True):
        doc = example.predicted
        predicted = list(read_predicted(doc, found, offset, place, labels))
        if has_presets:
            predicted += [Predicted(ent.start_char, ent.end_char, ent.label_, None) for ent in doc.ents]
        gold = [Gold(ent.start_char, ent.end_char, ent.label_) for ent in example.reference.ents]
        probs = [next(gold_probs) for _ in gold]
        predicted.sort(key=lambda ent: ent[:3])
        docs.append(ScoredDoc(doc.text, gold, probs, predicted, _find_unknown(example.reference)))
    return docs


def read_predicted(
    doc: Doc, found: ScoredEntities, offset: int, place: slice, labels: Sequence[str]
) -> Iterator[Predicted]:
    """Read a document's entities, by characters.

    doc (Doc): The document.
    found (ScoredEntities): The entities of its batch.
    offset (int): First row of the document.
    place (slice): Where its entities are.
    labels (Sequence[str]): The recognizer's labels.
    YIELDS (Predicted): The entities, in order.
    """
    entities = found.entities
    columns = (entities.starts[place], entities.ends[place], entities.labels[place], found.probabilities[place])
    for start, end, label, prob in zip(*(column.tolist() for column in columns), strict=True):
        last = doc[end - offset - 1]
        yield Predicted(doc[start - offset].idx, last.idx + len(last), labels[label], prob)


def _score_gold(scored: ScoredBatch, labels: Sequence[str]) -> Iterator[float | None]:
    columns: list[tuple[int, int, int]] = []
    fits: list[bool] = []
    offset = 0
    for example in scored.examples:
        doc = example.predicted
        for ent in example.reference.ents:
            span = doc.char_span(ent.start_char, ent.end_char)
            fits.append(span is not None and ent.label_ in labels)
            if span is not None and fits[-1]:
                columns.append((offset + span.start, offset + span.end, labels.index(ent.label_)))
        offset += len(doc)
    starts, ends, label_ids = numpy.array(columns, dtype="int64").reshape(-1, 3).T
    probabilities = iter(scored.batch.score(Entities(starts, ends, label_ids)).probabilities.tolist())
    return (next(probabilities) if is_fit else None for is_fit in fits)


def _find_unknown(reference: Doc) -> list[tuple[int, int]]:
    return [(token.idx, token.idx + len(token)) for token in reference if token.ent_iob == 0]


def check_entities(docs: Iterable[ScoredDoc]) -> tuple[numpy.ndarray, BoolArray, list[str]]:
    """List the probabilities of all predicted entities, and whether they are right.

    Entities where annotation is missing, and those without a probability, are left out.

    docs (Iterable[ScoredDoc]): The documents.
    RETURNS (tuple): Probabilities, (n_entities,) float64; whether each is right, (n_entities,) bool; and the labels.
    """
    rows = [
        (ent.prob, ent.as_gold in gold, ent.label)
        for doc in docs
        for gold in (set(doc.gold),)
        for ent in doc.predicted
        if ent.prob is not None and doc.is_known(ent.start, ent.end)
    ]
    probabilities, is_right, labels = zip(*rows, strict=True) if rows else ((), (), ())
    return numpy.array(probabilities, dtype="float64"), numpy.array(is_right, dtype=bool), list(labels)
