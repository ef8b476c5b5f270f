"""What the references of a batch say about the tags of its predicted documents.

A token's gold tag may be known, unknown, or known to be one of several. What is annotated where it cannot be is
counted and read as unknown. Positions are rows of the batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy
from spacy.attrs import ORTH, SENT_START
from spacy.tokens import Doc, Span
from spacy.training import Example

from ..errors import Errors
from ..tag_scheme import TagScheme
from ..types import LABELS_KEY, TAGS_KEY, AllowedTransitions, Annotation, BoolArray, IntArray
from .entity_tags import Entities, TokenColumns, entity_tags, read_entities
from .partial_tags import open_impossible, read_partial_tags

_MISSING, _BEGIN = 0, 3
# Tag id of a token whose tag is not known, or not alone.
_OPEN = -1


@dataclass(frozen=True)
class TagSet:
    """The tags of a pipe, and what is legal among them.

    scheme (TagScheme): The tag scheme.
    labels (tuple[str, ...]): The labels.
    label_hashes (tuple[int, ...]): Their hashes.
    transitions (AllowedTransitions | None): The legal moves; None for all.
    """

    scheme: TagScheme
    labels: tuple[str, ...]
    label_hashes: tuple[int, ...]
    transitions: AllowedTransitions | None

    @property
    def n_tags(self) -> int:
        """RETURNS (int): Number of tags."""
        return int(self.scheme.outside) + len(self.labels) * len(self.scheme.prefixes)

    def label_mask(self, labels: Sequence[int]) -> BoolArray:
        """Mark the tags of some labels.

        labels (Sequence[int]): Positions of the labels.
        RETURNS (BoolArray): True for their tags.
            (n_tags,) bool
        """
        width = len(self.scheme.prefixes)
        mask = numpy.zeros(self.n_tags, dtype=bool)
        for label in labels:
            first = int(self.scheme.outside) + label * width
            mask[first : first + width] = True
        return mask


@dataclass
class Gold:
    """The annotation of a batch and what of it could not be used.

    annotation (Annotation): The gold tags of the predicted documents' tokens.
    entities (Entities): The gold entities of the references, also those that cannot be used.
    n_unusable_entities (int): Entities of unknown label, or where none can be.
    n_unusable_tags (int): Single tags of unknown label, or that no tag path can have.
    """

    annotation: Annotation
    entities: Entities
    n_unusable_entities: int = 0
    n_unusable_tags: int = 0


def read_gold(examples: Sequence[Example], tag_set: TagSet, possible_tags: BoolArray | None) -> Gold:
    """Read the references of a batch: missing tokens are unknown, blocked ones in no entity.

    examples (Sequence[Example]): The examples.
    tag_set (TagSet): The tags of the pipe.
    possible_tags (BoolArray | None): Which tags a token may have; None for all.
        (n_tokens, n_tags) bool
    RETURNS (Gold): What is known of the tags, within what is possible.
    RAISES (ValueError): CRF311 or CRF312 if single tags or a set of labels cannot be read.
    """
    columns = TokenColumns.from_docs([aligned_reference(eg) for eg in examples])
    entities = read_entities(columns, tag_set.label_hashes)
    tags = numpy.where(columns.ent_iob == _MISSING, _OPEN, 0)  # "O" is tag 0
    rows, gold_tags = entity_tags(entities, tag_set.scheme)
    tags[rows] = gold_tags
    unusable = _unusable_entities(entities, tags, columns, examples, tag_set.scheme, possible_tags)
    if unusable.any():
        tags[entities.select(unusable).rows()[0]] = _OPEN
    gold = Gold(Annotation(tags), entities, int(unusable.sum()))
    if any(TAGS_KEY in eg.reference.user_data or LABELS_KEY in eg.reference.user_data for eg in examples):
        _read_user_data(gold, examples, columns, tag_set, possible_tags)
    return gold


def find_labels(reference: Doc) -> set[str]:
    """Collect the labels of a reference: those of its entities and of its single tags.

    reference (Doc): The reference.
    RETURNS (set[str]): The labels.
    """
    labels = {ent.label_ for ent in reference.ents}
    tags = reference.user_data.get(TAGS_KEY)
    if isinstance(tags, list | tuple):
        labels |= {tag.partition("-")[2] for tag in tags if isinstance(tag, str)}
    return labels - {""}


def aligned_reference(example: Example) -> Doc:
    """Return a document with the reference's entities on the predicted document's tokens.

    A gold entity that does not fall on the borders of tokens comes back as missing.

    example (Example): The example.
    RETURNS (Doc): The reference itself if its tokens are the predicted ones.
    """
    if tokens_match(example):
        return example.reference
    entities, tags = example.get_aligned_ents_and_ner()
    columns = zip(tags, example.get_aligned("ENT_IOB"), example.get_aligned("ENT_TYPE"), strict=True)
    # Blocked tokens have no tag either.
    is_missing = [not tag and (ent_iob != _BEGIN or bool(ent_type)) for tag, ent_iob, ent_type in columns]
    predicted = example.predicted
    aligned = Doc(predicted.vocab, words=[token.text for token in predicted])
    aligned.set_ents(
        [Span(aligned, ent.start, ent.end, label=ent.label) for ent in entities],
        missing=[aligned[i : i + 1] for i in numpy.flatnonzero(is_missing).tolist()],
        default="outside",
    )
    return aligned


def tokens_match(example: Example) -> bool:
    """Tell whether predicted document and reference have the same tokens.

    example (Example): The example.
    RETURNS (bool): Whether they have.
    """
    predicted, reference = example.predicted, example.reference
    return len(predicted) == len(reference) and bool((predicted.to_array(ORTH) == reference.to_array(ORTH)).all())


def _unusable_entities(
    entities: Entities,
    tags: IntArray,
    columns: TokenColumns,
    examples: Sequence[Example],
    scheme: TagScheme,
    possible_tags: BoolArray | None,
) -> BoolArray:
    """Tell which gold entities have a label that is not known, or stand where no entity can."""
    unusable = entities.labels < 0
    if not len(entities):
        return unusable
    unusable |= columns.is_space[entities.starts] | columns.is_space[entities.ends - 1]
    if possible_tags is None:
        return unusable
    rows, index = entities.rows()
    impossible = ~possible_tags[rows, numpy.maximum(tags[rows], 0)]
    opens, continues, _, _ = scheme.tag_rules(1)
    if (opens & continues).any():
        # The tags of IO cannot say that an entity crosses a sentence start.
        starts = [eg.predicted.to_array(SENT_START) == 1 for eg in examples]
        impossible |= numpy.concatenate(starts)[rows] & (rows != entities.starts[index])
    return unusable | (numpy.bincount(index[impossible], minlength=len(entities)) > 0)


def _read_user_data(
    gold: Gold,
    examples: Sequence[Example],
    columns: TokenColumns,
    tag_set: TagSet,
    possible_tags: BoolArray | None,
) -> None:
    """Add what the references hold under keys of their own."""
    tags = gold.annotation.tags
    allowed = numpy.ones((len(tags), tag_set.n_tags), dtype=bool)
    is_blocked = (columns.ent_iob == _BEGIN) & (columns.ent_type == 0)
    offsets = numpy.cumsum(columns.lengths) - columns.lengths
    has_tags = numpy.zeros(len(columns.lengths), dtype=bool)
    for doc, (example, offset, length) in enumerate(
        zip(examples, offsets.tolist(), columns.lengths.tolist(), strict=True)
    ):
        rows = slice(offset, offset + length)
        unannotated = _unannotated_tags(example.reference, tag_set)
        if TAGS_KEY in example.reference.user_data:
            has_tags[doc] = True
            partial = read_partial_tags(example, tag_set.scheme, tag_set.labels, unannotated, tokens_match(example))
            tags[rows] = _OPEN
            allowed[rows] = partial.allowed
            gold.n_unusable_tags += partial.n_unknown_labels
        elif unannotated.any():
            outside = offset + numpy.flatnonzero((tags[rows] == 0) & ~is_blocked[rows])
            tags[outside] = _OPEN
            allowed[outside] = unannotated
            allowed[outside, 0] = True
    gold.annotation.allowed_tags = allowed
    if has_tags.any():
        gold.n_unusable_tags += open_impossible(allowed, possible_tags, columns.lengths, has_tags, tag_set.transitions)


def _unannotated_tags(reference: Doc, tag_set: TagSet) -> BoolArray:
    """Mark the tags of labels that a document was not annotated for, (n_tags,) bool."""
    annotated = reference.user_data.get(LABELS_KEY)
    if annotated is None:
        return tag_set.label_mask([])
    if isinstance(annotated, str) or not all(isinstance(label, str) for label in annotated):
        raise ValueError(Errors.CRF312.format(key=LABELS_KEY, value=repr(annotated)))
    return tag_set.label_mask([i for i, label in enumerate(tag_set.labels) if label not in annotated])
