"""`ner_crf`: named entity recognition with a BiLSTM-CRF."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy
from spacy.attrs import ORTH
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Config

from ..errors import Warnings
from ..tag_scheme import TagScheme
from ..types import Annotation, BoolArray, CRFModel, IntArray
from .crf_pipe import CRFPipe
from .entity_tags import (
    Entities,
    TokenColumns,
    entity_tags,
    read_entities,
    structural_tags,
    trim_entities,
)
from .presets import Presets

DEFAULT_CONFIG = """
[model]
@architectures = "spacy-bilstm-crf.BiLSTMCRF.v1"
hidden_width = 100
depth = 1
crf = true
constrained = true
mixed_precision = false

[model.tok2vec]
@architectures = "spacy-bilstm-crf.WordFormEmbed.v1"

[model.tok2vec.embed]
@architectures = "spacy.MultiHashEmbed.v2"
width = 96
attrs = ["NORM", "PREFIX", "SUFFIX", "SHAPE"]
rows = [5000, 1000, 2500, 1000]
include_static_vectors = false
"""
DEFAULT_MODEL = Config().from_str(DEFAULT_CONFIG)["model"]


@Language.factory(
    "ner_crf",
    assigns=["doc.ents", "token.ent_iob", "token.ent_type"],
    default_config={
        "model": DEFAULT_MODEL,
        "tag_scheme": "BIOES",
        "overwrite": False,
        "scorer": {"@scorers": "spacy.ner_scorer.v1"},
    },
    default_score_weights={"ents_f": 1.0, "ents_p": 0.0, "ents_r": 0.0, "ents_per_type": None},
)
def make_ner_crf(
    nlp: Language, name: str, model: CRFModel, tag_scheme: str, overwrite: bool, scorer: Callable | None
) -> "NERCRF":
    """Make a BiLSTM-CRF entity recognizer.

    nlp (Language): The pipeline.
    name (str): The name of the component.
    model (Model): From documents to `CRFPotentials`.
    tag_scheme (str): "BIO", "BIOES" (or "BILUO"), "IO" or "BMES".
    overwrite (bool): Replace entities that earlier components have set instead of keeping them.
    scorer (Callable | None): The scoring method.
    RETURNS (NERCRF): The pipe.
    RAISES (ValueError): CRF001 if there is no such tag scheme.
    """
    return NERCRF(nlp.vocab, model, name, tag_scheme=tag_scheme, overwrite=overwrite, scorer=scorer)


@dataclass
class EntityPredictions:
    """The entities found in a batch, before they are set.

    tag_ids (IntArray): The best tag path of each document.
        (n_tokens,) int64
    lengths (IntArray): Number of tokens of each document.
        (n_docs,) int64
    entities (Entities): What the paths say, in rows of the batch; earlier entities that stay are not among them.
    has_presets (BoolArray): Which documents have entities or blocked tokens that stay.
        (n_docs,) bool
    """

    tag_ids: IntArray
    lengths: IntArray
    entities: Entities
    has_presets: BoolArray


class NERCRF(CRFPipe):
    """Entity recognizer that decodes the best legal path of a linear-chain CRF into `doc.ents`."""

    def __init__(
        self,
        vocab: Vocab,
        model: CRFModel,
        name: str = "ner_crf",
        *,
        tag_scheme: str = "BIOES",
        overwrite: bool = False,
        scorer: Callable | None = None,
    ) -> None:
        """Make the pipe.

        vocab (Vocab): The shared vocabulary.
        model (Model): From documents to `CRFPotentials`.
        name (str): The name of the component, also used for its losses.
        tag_scheme (str): How entities become tags.
        overwrite (bool): Replace entities that earlier components have set instead of keeping them.
        scorer (Callable | None): The scoring method.
        """
        super().__init__(vocab, model, name, tag_scheme=TagScheme(tag_scheme), scorer=scorer, overwrite=overwrite)
        self.n_unusable_entities = 0

    @property
    def _label_hashes(self) -> list[int]:
        return [self.vocab.strings.as_int(label) for label in self.cfg["labels"]]

    def predict(self, docs: Iterable[Doc]) -> EntityPredictions:
        """Find the entities of documents, without changing them.

        docs (Iterable[Doc]): The documents.
        RETURNS (EntityPredictions): What was found.
        """
        docs = list(docs)
        tag_ids = self.predict_tags(docs)
        columns = TokenColumns.from_docs(docs)
        presets = self._presets(columns)
        segments = presets.segment_lengths(columns)
        index, starts, ends, labels = self.tag_scheme.ids_to_spans(tag_ids, segments)
        offsets = (numpy.cumsum(segments) - segments)[index]
        entities = trim_entities(Entities(starts + offsets, ends + offsets, labels), columns)
        has_presets = presets.in_docs(columns.lengths)
        return EntityPredictions(tag_ids, columns.lengths, presets.without_covered(entities), has_presets)

    def _presets(self, columns: TokenColumns) -> Presets:
        presets = Presets.from_columns(columns, self._label_hashes)
        return presets.only_blocked() if self.cfg["overwrite"] else presets

    def set_annotations(self, docs: Iterable[Doc], scores: EntityPredictions) -> None:
        """Set the entities that were found.

        docs (Iterable[Doc]): The documents.
        scores (EntityPredictions): What `predict` returned for them.
        """
        found = scores.entities
        offsets = numpy.cumsum(scores.lengths) - scores.lengths
        bounds = numpy.searchsorted(found.starts, [*offsets, scores.lengths.sum()])
        for doc, offset, first, last, has_presets in zip(
            docs, offsets.tolist(), bounds[:-1], bounds[1:], scores.has_presets.tolist(), strict=True
        ):
            columns = (found.starts[first:last], found.ends[first:last], found.labels[first:last])
            spans = [
                Span(doc, start - offset, end - offset, label=self.cfg["labels"][label])
                for start, end, label in zip(*(column.tolist() for column in columns), strict=True)
            ]
            if has_presets:
                blocked = [doc[token.i : token.i + 1] for token in doc if token.ent_iob == 3 and not token.ent_type]
                kept = () if self.cfg["overwrite"] else doc.ents
                doc.set_ents([*kept, *spans], blocked=blocked)
            else:
                doc.set_ents(spans)

    def get_possible_tags(self, docs: list[Doc], *, is_train: bool) -> BoolArray | None:
        """Tell which tags white space, sentence starts and, at prediction, earlier annotation leave to each token.

        docs (list[Doc]): The documents.
        is_train (bool): Whether the tags are wanted for training, where earlier annotation is not binding.
        RETURNS (BoolArray | None): None if every token may have every tag.
            (n_tokens, n_tags) bool
        """
        columns = TokenColumns.from_docs(docs)
        possible = structural_tags(columns, self.tag_scheme, len(self.cfg["labels"]))
        if is_train:
            return possible
        return self._presets(columns).clamp(possible, self.tag_scheme, len(self.cfg["labels"]))

    def get_annotation(self, examples: list[Example], possible_tags: BoolArray | None) -> Annotation:
        """Read the gold entities of the references: missing tokens are unknown, blocked ones no entity.

        examples (list[Example]): The examples.
        possible_tags (BoolArray | None): What `get_possible_tags` gave for them. Gold outside of it is read as missing.
        RETURNS (Annotation): The gold tags of the predicted documents' tokens.
        """
        columns = TokenColumns.from_docs([_aligned_reference(eg) for eg in examples])
        is_unknown = columns.ent_iob == 0
        tags = numpy.where(is_unknown, -1, 0)  # "O" is tag 0
        entities = read_entities(columns, self._label_hashes)
        rows, gold = entity_tags(entities, self.tag_scheme)
        tags[rows] = gold
        unusable = self._unusable_entities(entities, tags, possible_tags)
        if unusable.any():
            rows, _ = entities.select(unusable).rows()
            tags[rows] = -1
            self._warn_unusable(int(unusable.sum()))
        return Annotation(tags)

    def _unusable_entities(self, entities: Entities, tags: IntArray, possible_tags: BoolArray | None) -> BoolArray:
        """Tell which gold entities have a label that is not known, or stand where no entity can."""
        unusable = entities.labels < 0
        if possible_tags is None or not len(entities):
            return unusable
        rows, index = entities.rows()
        impossible = ~possible_tags[rows, numpy.maximum(tags[rows], 0)]
        return unusable | (numpy.bincount(index[impossible], minlength=len(entities)) > 0)

    def _warn_unusable(self, n_entities: int) -> None:
        if not self.n_unusable_entities:
            warnings.warn(Warnings.CRF350.format(name=self.name, n_entities=n_entities), stacklevel=3)
        self.n_unusable_entities += n_entities

    def _find_labels(self, examples: Iterable[Example]) -> list[str]:
        return sorted({ent.label_ for eg in examples for ent in eg.reference.ents})


def _aligned_reference(example: Example) -> Doc:
    """Return a document with the reference's entities on the predicted document's tokens."""
    predicted, reference = example.predicted, example.reference
    if len(predicted) == len(reference) and (predicted.to_array(ORTH) == reference.to_array(ORTH)).all():
        return reference
    # A gold entity that does not fall on token borders comes back as missing.
    tags = [tag if tag is not None else "-" for tag in example.get_aligned_ner()]
    return Doc(predicted.vocab, words=[token.text for token in predicted], ents=tags)
