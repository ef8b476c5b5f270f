"""A batch of documents with the distribution over its tag paths, and what can be read from it about entities."""

from dataclasses import dataclass

import numpy

from ..inference import decode
from ..probabilities import Distribution, LabelledSpans, SpanRules, likely_spans, span_probabilities
from ..scaling import AS_IT_IS, Scaling
from ..tag_scheme import TagScheme
from ..types import BoolArray, IntArray
from .entity_output import ScoredEntities
from .entity_tags import Entities, TokenColumns, trim_entities
from .presets import Presets

# More of them are not searched for: an entity that is spread over so many is not likely in any.
_MOST_VARIANTS = 100


@dataclass
class EntityBatch:
    """What stands on the documents of a batch, and what the model says of them. Positions are rows of the batch.

    columns (TokenColumns): What the tokens say.
    presets (Presets): What was set before and stays.
    scheme (TagScheme): The tag scheme.
    n_labels (int): Number of labels.
    distribution (Distribution): The distribution over tag paths as the model gives it.
    scaling (Scaling): What makes of it the probabilities that are given out.
    """

    columns: TokenColumns
    presets: Presets
    scheme: TagScheme
    n_labels: int
    distribution: Distribution
    scaling: Scaling = AS_IT_IS

    @property
    def tempered(self) -> Distribution:
        """RETURNS (Distribution): The distribution with the temperature, whose probabilities are those of paths."""
        return self.distribution.with_temperature(self.scaling.temperature)

    def best_paths(self) -> IntArray:
        """Find the best tag path of each document.

        RETURNS (IntArray): Tag ids.
            (n_tokens,) int64
        """
        return decode(self.distribution.potentials, self.distribution.allowed, self.distribution.possible_tags)

    def read_entities(self, tag_ids: IntArray) -> Entities:
        """Read the entities from a tag path for each document. Earlier ones that stay are not among them.

        tag_ids (IntArray): Tag ids; -1 is read as outside.
            (n_tokens,) int64
        RETURNS (Entities): The entities, in order.
        """
        segments = self.presets.segment_lengths(self.columns)
        index, starts, ends, labels = self.scheme.ids_to_spans(tag_ids, segments)
        offsets = (numpy.cumsum(segments) - segments)[index]
        entities = trim_entities(Entities(starts + offsets, ends + offsets, labels), self.columns)
        return self.presets.without_covered(entities)

    def score(self, entities: Entities) -> ScoredEntities:
        """Compute the probability of entities: that of all tag paths from which they are read, with their bias.

        White space is cut off the edges of what the tags say, where the scheme cannot forbid it there. The probability
        of an entity is that of the outcome, so it counts paths with and without such an edge.

        entities (Entities): The entities.
        RETURNS (ScoredEntities): The entities with their probabilities.
        """
        rules = self._rules()
        spans = LabelledSpans(entities.starts, entities.ends, entities.labels)
        earliest, latest = entities.starts, entities.ends
        if self.columns.is_space.any():
            earliest = _edge_starts(self.columns.is_space, rules.borders)[entities.starts]
            latest = _edge_ends(self.columns.is_space, rules.borders)[entities.ends]
        probabilities = span_probabilities(self.tempered, spans, rules, earliest=earliest, latest=latest)
        return ScoredEntities(entities, self.scaling.shift(probabilities, entities.labels))

    def score_beside(self, entities: Entities, known: ScoredEntities) -> ScoredEntities:
        """Compute the probability of entities, taking over those that are known.

        entities (Entities): The entities.
        known (ScoredEntities): What `likely_entities` gave.
        RETURNS (ScoredEntities): The entities with their probabilities.
        """
        place = known.find(entities)
        probabilities = numpy.empty(len(entities))
        probabilities[place >= 0] = known.probabilities[place[place >= 0]]
        probabilities[place < 0] = self.score(entities.select(place < 0)).probabilities
        return ScoredEntities(entities, probabilities)

    def likely_entities(self, threshold: float) -> ScoredEntities:
        """Find all entities that are at least so probable, whether the best path has them or not. They may overlap.

        threshold (float): The least probability, greater than 0.
        RETURNS (ScoredEntities): The entities, by start, end and label.
        """
        least = self.scaling.least_unshifted(threshold) / self._most_variants()
        spans, probabilities = likely_spans(self.tempered, least, self._rules())
        entities = Entities(spans.starts, spans.ends, spans.labels)
        if self.columns.is_space.any():
            entities = self.presets.without_covered(trim_entities(entities, self.columns))
            # Two spans that differ in white space at their edges are one entity.
            distinct = numpy.unique(numpy.stack([entities.starts, entities.ends, entities.labels]), axis=1)
            scored = self.score(Entities(distinct[0], distinct[1], distinct[2]))
        else:
            is_open = ~self.presets.is_covered[entities.starts]
            scored = ScoredEntities(entities, self.scaling.shift(probabilities, entities.labels)).select(is_open)
        return scored.select(scored.probabilities >= threshold)

    def _most_variants(self) -> int:
        """In how many spans the probability of an entity may be found, which differ in white space at their edges."""
        # Without constraints any tag may begin or end an entity.
        prefixes = () if self.distribution.allowed is None else self.scheme.prefixes
        n_open_edges = ("B" not in prefixes) + ("E" not in prefixes)
        words = numpy.flatnonzero(numpy.concatenate([[True], ~self.columns.is_space, [True]]))
        return min(int(numpy.diff(words).max()) ** n_open_edges, _MOST_VARIANTS)

    def _rules(self) -> SpanRules:
        _, continues, goes_on, _ = self.scheme.tag_rules(self.n_labels)
        width, n_outside = len(self.scheme.prefixes), int(self.scheme.outside)
        labels = (numpy.arange(len(continues)) - n_outside) // width  # -1 for "O"
        joins = goes_on[:, None] & continues[None, :] & (labels[:, None] == labels[None, :])
        borders = numpy.zeros(len(self.columns.ent_iob), dtype=bool)
        sizes = self.presets.segment_lengths(self.columns)
        borders[numpy.cumsum(sizes) - sizes] = True
        return SpanRules(joins, n_outside + numpy.arange(self.n_labels) * width, width, borders)


def _edge_starts(is_space: BoolArray, borders: BoolArray) -> IntArray:
    """For each row, the first one from which on there is only white space up to it. (n_tokens,) int64."""
    rows = numpy.arange(len(is_space))
    stops = borders.copy()
    stops[1:] |= ~is_space[:-1]
    return numpy.maximum.accumulate(numpy.where(stops, rows, 0))


def _edge_ends(is_space: BoolArray, borders: BoolArray) -> IntArray:
    """For each end, the last one up to which there is only white space behind it. (n_tokens + 1,) int64."""
    ends = numpy.arange(len(is_space) + 1)
    stops = numpy.append(borders | ~is_space, True)
    return numpy.minimum.accumulate(numpy.where(stops, ends, len(is_space))[::-1])[::-1]
