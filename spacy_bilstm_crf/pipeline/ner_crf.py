"""`ner_crf`: named entity recognition with a BiLSTM-CRF."""

import warnings
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Config

from ..errors import Errors, Warnings
from ..objectives import negative_loss_and_gradient
from ..probabilities import Distribution
from ..scaling import Scaling
from ..tag_scheme import TagScheme
from ..types import Annotation, BoolArray, CRFModel, CRFPotentials, FloatArray
from .annotation import TagSet, find_labels, read_gold
from .crf_pipe import CRFPipe
from .entity_batch import EntityBatch
from .entity_output import EntityPredictions, set_entities, set_span_groups
from .entity_tags import TokenColumns, structural_tags
from .extensions import register_extensions
from .negative import find_span_cases
from .ner_probabilities import ScoredPath, find_n_best, score_annotation, split_marginals
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
@architectures = "spacy-bilstm-crf.WordCharEmbed.v1"
attrs = ["NORM", "PREFIX", "SUFFIX", "SHAPE"]
widths = [32, 8, 16, 16]
rows = [5000, 1000, 2500, 1000]
include_static_vectors = false
fine_tune_vectors = true
char_filters = 30
char_width = 30
min_count = 2
unseen_rate = 0.3
"""
DEFAULT_MODEL = Config().from_str(DEFAULT_CONFIG)["model"]


@Language.factory(
    "ner_crf",
    assigns=["doc.ents", "token.ent_iob", "token.ent_type"],
    default_config={
        "model": DEFAULT_MODEL,
        "tag_scheme": "BIOES",
        "overwrite": False,
        "incorrect_spans_key": None,
        "prob_attr": None,
        "threshold": 0.0,
        "spans_key": None,
        "spans_threshold": None,
        "scorer": {"@scorers": "spacy.ner_scorer.v1"},
    },
    default_score_weights={"ents_f": 1.0, "ents_p": 0.0, "ents_r": 0.0, "ents_per_type": None},
)
def make_ner_crf(
    nlp: Language,
    name: str,
    model: CRFModel,
    tag_scheme: str,
    overwrite: bool,
    incorrect_spans_key: str | None,
    prob_attr: str | None,
    threshold: float,
    spans_key: str | None,
    spans_threshold: float | None,
    scorer: Callable | None,
) -> "NERCRF":
    """Make a BiLSTM-CRF entity recognizer.

    nlp (Language): The pipeline.
    name (str): The name of the component.
    model (Model): From documents to `CRFPotentials`.
    tag_scheme (str): "BIO", "BIOES" (or "BILUO"), "IO" or "BMES".
    overwrite (bool): Replace entities that earlier components have set instead of keeping them.
    incorrect_spans_key (str | None): Where `doc.spans` of a reference holds spans that are no entities of their label.
    prob_attr (str | None): Name of the extension attribute for the probability of an entity. None for none.
    threshold (float): Drop entities that are less probable.
    spans_key (str | None): Name of a span group for the entities and their probabilities.
    spans_threshold (float | None): Put all spans that are at least so probable into the span group as well.
    scorer (Callable | None): The scoring method.
    RETURNS (NERCRF): The pipe.
    RAISES (ValueError): CRF001 if there is no such tag scheme, CRF320 if the attribute's name is taken, CRF321 if a
        threshold is not a probability.
    """
    return NERCRF(
        nlp.vocab,
        model,
        name,
        tag_scheme=tag_scheme,
        overwrite=overwrite,
        incorrect_spans_key=incorrect_spans_key,
        prob_attr=prob_attr,
        threshold=threshold,
        spans_key=spans_key,
        spans_threshold=spans_threshold,
        scorer=scorer,
    )


class NERCRF(CRFPipe):
    """Entity recognizer that decodes the best legal path of a linear-chain CRF into `doc.ents`."""

    FITTED: ClassVar[dict[str, Any]] = {"temperature": 1.0, "label_biases": {}}

    def __init__(
        self,
        vocab: Vocab,
        model: CRFModel,
        name: str = "ner_crf",
        *,
        tag_scheme: str = "BIOES",
        overwrite: bool = False,
        incorrect_spans_key: str | None = None,
        prob_attr: str | None = None,
        threshold: float = 0.0,
        spans_key: str | None = None,
        spans_threshold: float | None = None,
        scorer: Callable | None = None,
    ) -> None:
        """Make the pipe.

        vocab (Vocab): The shared vocabulary.
        model (Model): From documents to `CRFPotentials`.
        name (str): The name of the component, also used for its losses.
        tag_scheme (str): How entities become tags.
        overwrite (bool): Replace entities that earlier components have set instead of keeping them.
        incorrect_spans_key (str | None): Where `doc.spans` of a reference holds spans that are no entities.
        prob_attr (str | None): Name of the extension attribute for the probability of an entity. None for none.
        threshold (float): Drop entities that are less probable.
        spans_key (str | None): Name of a span group for the entities and their probabilities.
        spans_threshold (float | None): Put all spans that are at least so probable into the span group as well.
        scorer (Callable | None): The scoring method.
        """
        cfg: dict[str, Any] = {"overwrite": overwrite, "incorrect_spans_key": incorrect_spans_key}
        cfg.update(prob_attr=prob_attr, threshold=threshold, spans_key=spans_key, spans_threshold=spans_threshold)
        super().__init__(vocab, model, name, tag_scheme=TagScheme(tag_scheme), scorer=scorer, **cfg)
        self.n_unusable_entities = 0
        self.n_unusable_tags = 0
        if not 0.0 <= threshold <= 1.0:
            raise ValueError(Errors.CRF321.format(setting="threshold", name=name, value=threshold))
        if spans_threshold is not None and not 0.0 < spans_threshold <= 1.0:
            raise ValueError(Errors.CRF321.format(setting="spans_threshold", name=name, value=spans_threshold))
        if prob_attr is not None:
            register_extensions(prob_attr)

    @property
    def _label_hashes(self) -> list[int]:
        return [self.vocab.strings.as_int(label) for label in self.cfg["labels"]]

    @property
    def tag_set(self) -> TagSet:
        """RETURNS (TagSet): The tags, and what is legal among them."""
        return TagSet(self.tag_scheme, self.labels, tuple(self._label_hashes), self.allowed_transitions)

    def predict(self, docs: Iterable[Doc]) -> EntityPredictions:
        """Find the entities of documents, without changing them.

        docs (Iterable[Doc]): The documents.
        RETURNS (EntityPredictions): What was found.
        """
        batch = self.read_batch(list(docs), keep_ents=not self.cfg["overwrite"])
        tag_ids = batch.best_paths()
        found = batch.read_entities(tag_ids)
        has_presets = batch.presets.in_docs(batch.columns.lengths)
        result = EntityPredictions(tag_ids, batch.columns.lengths, found, has_presets)
        prob_attr, spans_key, threshold = self.cfg["prob_attr"], self.cfg["spans_key"], self.cfg["threshold"]
        if prob_attr is None and spans_key is None and not threshold:
            return result
        likely = None
        if spans_key is not None and self.cfg["spans_threshold"] is not None:
            likely = batch.likely_entities(self.cfg["spans_threshold"])
        scored = batch.score(found) if likely is None else batch.score_beside(found, likely)
        scored = scored.select(scored.probabilities >= threshold)
        result.entities, result.probabilities = scored.entities, scored.probabilities
        if spans_key is not None:
            result.spans = scored if likely is None else scored.union(likely)
        return result

    def read_batch(self, docs: list[Doc], *, keep_ents: bool = True) -> EntityBatch:
        """Find the distribution over the tag paths of documents.

        docs (list[Doc]): The documents.
        keep_ents (bool): Whether entities that are set on the documents bind the paths. Blocked tokens always do.
        RETURNS (EntityBatch): The distribution and what stands on the documents.
        RAISES (ValueError): CRF301 if the pipe has no labels.
        """
        self._require_weights()
        columns = TokenColumns.from_docs(docs)
        presets = Presets.from_columns(columns, self._label_hashes)
        presets = presets if keep_ents else presets.only_blocked()
        n_labels = len(self.cfg["labels"])
        possible = presets.clamp(structural_tags(columns, self.tag_scheme, n_labels), self.tag_scheme, n_labels)
        distribution = Distribution(self.model.predict(docs), self.allowed_transitions, possible)
        return EntityBatch(columns, presets, self.tag_scheme, n_labels, distribution, self.scaling)

    @property
    def scaling(self) -> Scaling:
        """RETURNS (Scaling): What `spacy crf calibrate` has found, so that probabilities mean what they say."""
        return Scaling.of_labels(self.cfg["temperature"], self.cfg["label_biases"], self.labels)

    def n_best(self, docs: Iterable[Doc], n: int = 5, *, keep_ents: bool = False) -> list[list[ScoredPath]]:
        """Find the n most probable tag paths, each with the entities that are read from it. Documents do not change.

        docs (Iterable[Doc]): The documents, as they come to this component or from it.
        n (int): Number of paths.
        keep_ents (bool): Whether the entities that are set on the documents are in all paths.
        RETURNS (list[list[ScoredPath]]): For each document its paths, all different, most probable first; fewer than n
            where there are no more.
        RAISES (ValueError): CRF322 if n is less than 1.
        """
        docs = list(docs)
        return find_n_best(docs, self.read_batch(docs, keep_ents=keep_ents), n, self.tag_set)

    def log_prob(self, docs: Iterable[Doc]) -> FloatArray:
        """Compute how probable the entities on documents are: the tags that spell all of them, and no others.

        Tokens without annotation are left open. What no tag path spells, such as an entity of unknown label, has
        probability 0. In the scheme "IO", adjacent entities of one label are spelled as one.

        docs (Iterable[Doc]): The annotated documents.
        RETURNS (FloatArray): Log probabilities, in nats, at most 0.
            (n_docs,) float64
        """
        docs = list(docs)
        return score_annotation(docs, self.read_batch(docs, keep_ents=False), self.tag_set)

    def marginals(self, docs: Iterable[Doc], *, keep_ents: bool = False) -> list[numpy.ndarray]:
        """Compute the probability of each tag at each token.

        docs (Iterable[Doc]): The documents, as they come to this component or from it.
        keep_ents (bool): Whether the entities that are set on the documents are certain.
        RETURNS (list[ndarray]): For each document an array whose columns are those of `tags` and whose rows sum to 1.
            (n_tokens, n_tags) float32
        """
        return split_marginals(self.read_batch(list(docs), keep_ents=keep_ents))

    def _presets(self, columns: TokenColumns) -> Presets:
        presets = Presets.from_columns(columns, self._label_hashes)
        return presets.only_blocked() if self.cfg["overwrite"] else presets

    def set_annotations(self, docs: Iterable[Doc], scores: EntityPredictions) -> None:
        """Set the entities that were found.

        docs (Iterable[Doc]): The documents.
        scores (EntityPredictions): What `predict` returned for them.
        """
        docs = list(docs)
        keep_ents, prob_attr = not self.cfg["overwrite"], self.cfg["prob_attr"]
        ents = set_entities(docs, scores, self.labels, keep_ents=keep_ents, prob_attr=prob_attr)
        set_span_groups(docs, scores, ents, self.labels, self.cfg["spans_key"])

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
        """Read the gold tags of the references: missing tokens are unknown, blocked ones no entity.

        examples (list[Example]): The examples.
        possible_tags (BoolArray | None): What `get_possible_tags` gave for them. Gold outside of it is read as missing.
        RETURNS (Annotation): The gold tags of the predicted documents' tokens.
        """
        gold = read_gold(examples, self.tag_set, possible_tags)
        if gold.n_unusable_entities and not self.n_unusable_entities:
            text = Warnings.CRF350.format(name=self.name, n_entities=gold.n_unusable_entities)
            warnings.warn(text, stacklevel=2)
        if gold.n_unusable_tags and not self.n_unusable_tags:
            warnings.warn(Warnings.CRF351.format(name=self.name, n_tags=gold.n_unusable_tags), stacklevel=2)
        self.n_unusable_entities += gold.n_unusable_entities
        self.n_unusable_tags += gold.n_unusable_tags
        return gold.annotation

    def get_further_loss(
        self, examples: list[Example], scores: CRFPotentials, possible_tags: BoolArray | None
    ) -> tuple[numpy.ndarray, CRFPotentials] | None:
        """Find the loss of spans that are known to be no entities: -log(1 - P(span)) for each.

        examples (list[Example]): The examples.
        scores (CRFPotentials): The potentials of their predicted documents.
        possible_tags (BoolArray | None): What `get_possible_tags` gave for them.
        RETURNS (tuple | None): The loss of each document in nats, (n_docs,) float64, and the gradient of its sum; None
            if there are no such spans.
        RAISES (ValueError): CRF310 if such a span is an entity of the same reference.
        """
        key = self.cfg["incorrect_spans_key"]
        cases = find_span_cases(examples, key, self.tag_set, possible_tags) if key else None
        if cases is None:
            return None
        return negative_loss_and_gradient(scores, cases, self.allowed_transitions, possible_tags)

    def _find_labels(self, examples: Iterable[Example]) -> list[str]:
        return sorted(set().union(*(find_labels(eg.reference) for eg in examples)))
