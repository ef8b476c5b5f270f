"""Spans that are known to be no entities, or none of their label, and the ways in which tag paths can spell them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy
from spacy.training import Example

from ..errors import Errors
from ..objectives import SpanCases
from ..types import BoolArray
from .annotation import TagSet, aligned_reference, tokens_match
from .entity_tags import TokenColumns

# Start, end and label.
IncorrectSpan = tuple[int, int, str]


def read_incorrect_spans(example: Example, key: str) -> list[IncorrectSpan]:
    """Read the incorrect spans of a reference.

    example (Example): The example.
    key (str): The key of the spans in `doc.spans`.
    RETURNS (list): The spans in tokens of the predicted document, each once. Those that do not fall on its tokens are
        left out.
    RAISES (ValueError): CRF310 if one is an entity of the reference.
    """
    reference = example.reference
    spans = reference.spans.get(key, ())
    if not len(spans):
        return []
    if not tokens_match(example):
        spans = example.get_aligned_spans_y2x(spans, allow_overlap=True)
    found = list(dict.fromkeys((span.start, span.end, span.label_) for span in spans if span.end > span.start))
    entities = {(ent.start, ent.end, ent.label_) for ent in aligned_reference(example).ents}
    for start, end, label in found:
        if (start, end, label) in entities:
            shown = (example.predicted[start:end].text, start, end, label)
            raise ValueError(Errors.CRF310.format(span=shown, key=key))
    return found


def find_span_cases(
    examples: Sequence[Example], key: str, tag_set: TagSet, possible_tags: BoolArray | None
) -> SpanCases | None:
    """List the ways in which tag paths can spell the incorrect spans of a batch.

    Labels that the pipe does not know, and spans that cannot be entities, have none.

    examples (Sequence[Example]): The examples.
    key (str): The key of the spans in `doc.spans`.
    tag_set (TagSet): The tags of the pipe.
    possible_tags (BoolArray | None): Which tags a token may have; None for all.
        (n_tokens, n_tags) bool
    RETURNS (SpanCases | None): None if there are none.
    RAISES (ValueError): CRF310 if an incorrect span is an entity of the same reference.
    """
    labels = {label: i for i, label in enumerate(tag_set.labels)}
    cases: list[tuple[int, int, _Case]] = []
    offset = n_spans = 0
    for doc, example in enumerate(examples):
        length = len(example.predicted)
        spans = [span for span in read_incorrect_spans(example, key) if span[2] in labels]
        if spans:
            possible = None if possible_tags is None else possible_tags[offset : offset + length]
            speller = _Speller(TokenColumns.from_docs([example.predicted]), tag_set, possible)
            for start, end, label in spans:
                found = list(speller.spell(start, end, labels[label]))
                cases += [(doc, n_spans, case) for case in found]
                n_spans += bool(found)
        offset += length
    if not cases:
        return None
    docs, span_ids, restrictions = zip(*cases, strict=True)
    sizes = [len(case) for case in restrictions]
    return SpanCases(
        numpy.array(docs, dtype="int64"),
        numpy.array(span_ids, dtype="int64"),
        numpy.repeat(numpy.arange(len(cases)), sizes),
        numpy.array([token for case in restrictions for token in case], dtype="int64"),
        numpy.stack([tags for case in restrictions for tags in case.values()]),
    )


# Which tags each token may have.
_Case = dict[int, BoolArray]


@dataclass
class _Speller:
    """Spells entities of one document.

    columns (TokenColumns): Its columns.
    tag_set (TagSet): The tags.
    possible_tags (BoolArray | None): (n_tokens, n_tags) bool
    """

    columns: TokenColumns
    tag_set: TagSet
    possible_tags: BoolArray | None

    def __post_init__(self) -> None:
        # is_border[i]: no entity goes on from token i - 1 to token i
        self.is_border = numpy.append(self.columns.is_sent_start, True)
        self.rules = self.tag_set.scheme.tag_rules(len(self.tag_set.labels))

    def spell(self, start: int, end: int, label: int) -> Iterator[_Case]:
        """Yield the cases in which tag paths are read as this entity. They exclude each other.

        White space is taken off the ends of entities after decoding, so what is longer by white space counts too.
        """
        is_space = self.columns.is_space
        if self.is_border[start + 1 : end].any() or is_space[start] or is_space[end - 1]:
            return
        starts, ends = [start], [end]
        while not self.is_border[starts[-1]] and is_space[starts[-1] - 1]:
            starts.append(starts[-1] - 1)
        while not self.is_border[ends[-1]] and is_space[ends[-1]]:
            ends.append(ends[-1] + 1)
        for first in starts:
            for last in ends:
                for case in self._spell_exactly(first, last, label):
                    if self._is_possible(case):
                        yield case

    def _spell_exactly(self, start: int, end: int, label: int) -> Iterator[_Case]:
        opens, continues, goes_on, stops = self.rules
        is_label = self.tag_set.label_mask([label])
        constrained = self.tag_set.transitions is not None
        first = is_label & opens if constrained else is_label
        last = is_label & stops if constrained else is_label
        # A tag that could continue an entity begins one where the token before does not go on with the same label.
        before: list[tuple[BoolArray, BoolArray | None]] = [(first, None)]
        if not self.is_border[start]:
            before = [(first & ~continues, None), (first & continues, ~(is_label & goes_on))]
        after: list[tuple[BoolArray, BoolArray | None]] = [(last, None)]
        if not self.is_border[end]:
            after = [(last & ~goes_on, None), (last & goes_on, ~(is_label & continues))]
        for first_tags, tags_before in before:
            for last_tags, tags_after in after:
                case = dict.fromkeys(range(start, end), is_label & continues & goes_on)
                if end - start == 1:
                    case[start] = first_tags & last_tags
                else:
                    case[start], case[end - 1] = first_tags & goes_on, last_tags & continues
                if tags_before is not None:
                    case[start - 1] = tags_before
                if tags_after is not None:
                    case[end] = tags_after
                yield case

    def _is_possible(self, case: _Case) -> bool:
        if self.possible_tags is None:
            return all(tags.any() for tags in case.values())
        return all((tags & self.possible_tags[token]).any() for token, tags in case.items())
