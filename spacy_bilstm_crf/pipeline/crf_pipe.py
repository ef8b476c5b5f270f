"""What the pipes of this package share: labels and tags, prediction, training and files."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import numpy
from spacy import util
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example, validate_examples, validate_get_examples
from spacy.vocab import Vocab
from thinc.api import Optimizer

from ..errors import Errors
from ..inference import decode, loss_and_gradient
from ..tag_scheme import TagScheme, check_label
from ..types import AllowedTransitions, Annotation, BoolArray, CRFModel, CRFPotentials, IntArray
from .rehearsal import RehearsingPipe

# Enough documents to infer the widths of the layers from.
_N_SAMPLE_DOCS = 10


class CRFPipe(RehearsingPipe):
    """A pipe that tags tokens with a linear-chain CRF. Not used directly.

    A subclass says what the annotation of a document means as tags (`get_annotation`), which tags a token may have at
    all (`get_possible_tags`) and what becomes of a tag path (`set_annotations`).
    """

    def __init__(
        self, vocab: Vocab, model: CRFModel, name: str, *, tag_scheme: TagScheme, scorer: Callable | None, **cfg: Any
    ) -> None:
        """Make the pipe.

        vocab (Vocab): The shared vocabulary.
        model (Model): From documents to `CRFPotentials`.
        name (str): The name of the component, also used for its losses.
        tag_scheme (TagScheme): How labels become tags.
        scorer (Callable | None): The scoring method.
        **cfg (Any): Settings that are stored with the pipe.
        """
        self.vocab = vocab
        self.model = model
        self.name = name
        self.scorer = scorer
        self.tag_scheme = tag_scheme
        # What the config says is kept beside the settings in use, so that a file shows which were changed by hand.
        self.cfg: dict[str, Any] = {"labels": [], "tag_scheme": tag_scheme.name, "configured": dict(cfg), **cfg}
        self._forget_fitted()
        self._allowed: tuple[tuple[str, ...], AllowedTransitions] | None = None
        self._untrained_labels: set[str] = set()

    @property
    def labels(self) -> tuple[str, ...]:
        """RETURNS (tuple[str, ...]): The labels, in the order of their tags."""
        return tuple(self.cfg["labels"])

    @property
    def label_data(self) -> list[str]:
        """RETURNS (list[str]): What `initialize` takes as `labels`, for `spacy init labels`."""
        return list(self.cfg["labels"])

    @property
    def tags(self) -> list[str]:
        """RETURNS (list[str]): The tags; a tag's id is its position."""
        return self.tag_scheme.tags(self.cfg["labels"])

    @property
    def allowed_transitions(self) -> AllowedTransitions | None:
        """RETURNS (AllowedTransitions | None): The legal moves, None if the model is not to be constrained."""
        if not self.model.attrs.get("constrained", True):
            return None
        labels = tuple(self.cfg["labels"])
        if self._allowed is None or self._allowed[0] != labels:
            self._allowed = labels, AllowedTransitions(*self.tag_scheme.allowed_transitions(labels))
        return self._allowed[1]

    def get_possible_tags(self, docs: list[Doc], *, is_train: bool) -> BoolArray | None:
        """Tell which tags each token may have.

        docs (list[Doc]): The documents.
        is_train (bool): Whether the tags are wanted for training, where earlier annotation is not binding.
        RETURNS (BoolArray | None): None if every token may have every tag.
            (n_tokens, n_tags) bool
        """
        return None

    def get_annotation(self, examples: list[Example], possible_tags: BoolArray | None) -> Annotation:
        """Read the gold tags of the references.

        examples (list[Example]): The examples.
        possible_tags (BoolArray | None): What `get_possible_tags` gave for them.
        RETURNS (Annotation): The gold tags for the predicted documents' tokens.
        """
        raise NotImplementedError

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Annotate a stream of documents.

        When a batch fails, its documents are tried one by one, so that only those that fail by themselves reach the
        error handler.

        stream (Iterable[Doc]): The documents.
        batch_size (int): The number of documents to buffer.
        YIELDS (Doc): The documents, in order.
        """
        for docs in util.minibatch(stream, size=batch_size):
            docs = list(docs)
            try:
                annotated = self.annotate(docs)
            except Exception as error:
                if len(docs) == 1:
                    self.get_error_handler()(self.name, self, docs, error)
                    continue
                yield from self._pipe_one_by_one(docs)
            else:
                yield from annotated

    def _pipe_one_by_one(self, docs: list[Doc]) -> Iterator[Doc]:
        for doc in docs:
            try:
                annotated = self.annotate([doc])
            except Exception as error:
                self.get_error_handler()(self.name, self, [doc], error)
            else:
                yield from annotated

    def annotate(self, docs: list[Doc]) -> list[Doc]:
        """Predict and set annotations.

        docs (list[Doc]): The documents.
        RETURNS (list[Doc]): The annotated documents: the same ones, or others in their place.
        """
        self.set_annotations(docs, self.predict(docs))
        return docs

    def predict_tags(self, docs: list[Doc]) -> IntArray:
        """Find the best tag path of each document.

        docs (list[Doc]): The documents.
        RETURNS (IntArray): Tag ids, the documents one after another.
            (n_tokens,) int64
        """
        self._require_weights()
        potentials = self.model.predict(docs)
        return decode(potentials, self.allowed_transitions, self.get_possible_tags(docs, is_train=False))

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Learn from a batch of examples.

        examples (Iterable[Example]): The examples.
        drop (float): The dropout rate.
        sgd (Optimizer | None): The optimizer; without one gradients add up.
        losses (dict | None): Record of the losses, to which this component's is added.
        RETURNS (dict): The losses: the negative log likelihood in nats of a sequence, the mean over the batch.
        """
        examples = list(examples)
        validate_examples(examples, f"{type(self).__name__}.update")
        self._require_weights()
        self._untrained_labels.clear()
        return super().update(examples, drop=drop, sgd=sgd, losses=losses)

    def get_loss(self, examples: Iterable[Example], scores: CRFPotentials) -> tuple[float, CRFPotentials]:
        """Find the loss of a batch and its gradient.

        examples (Iterable[Example]): The examples.
        scores (CRFPotentials): The potentials of their predicted documents.
        RETURNS (tuple): The mean negative log likelihood of a sequence, in nats, and its gradient.
        """
        examples = list(examples)
        possible_tags = self.get_possible_tags([eg.predicted for eg in examples], is_train=True)
        annotation = self.get_annotation(examples, possible_tags)
        losses, d_scores = loss_and_gradient(scores, annotation, self.allowed_transitions, possible_tags)
        further = self.get_further_loss(examples, scores, possible_tags)
        if further is not None:
            losses = losses + further[0]
            for total, part in zip(d_scores.arrays, further[1].arrays, strict=True):
                total += part
        # The mean over sequences: a learning rate then means the same for every batch size.
        scale = 1.0 / max(1, len(losses))
        for array in d_scores.arrays:
            array *= scale
        return float(losses.sum()) * scale, d_scores

    def get_further_loss(
        self, examples: list[Example], scores: CRFPotentials, possible_tags: BoolArray | None
    ) -> tuple[numpy.ndarray, CRFPotentials] | None:
        """Find a loss that is added to the negative log likelihood.

        examples (list[Example]): The examples.
        scores (CRFPotentials): The potentials of their predicted documents.
        possible_tags (BoolArray | None): What `get_possible_tags` gave for them.
        RETURNS (tuple | None): The loss of each document in nats, (n_docs,) float64, and the gradient of its sum; None
            if there is none.
        """
        return None

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: list[str] | None = None,
    ) -> None:
        """Set the labels and make the model's weights.

        get_examples (Callable): Gives the training examples.
        nlp (Language | None): The pipeline.
        labels (list[str] | None): The labels, as `label_data` has them. None to collect them from the examples.
        RAISES (ValueError): CRF300 if the labels are one string, CRF301 if there are none, CRF302 if no token is there.
        """
        validate_get_examples(get_examples, f"{type(self).__name__}.initialize")
        if isinstance(labels, str):
            raise ValueError(Errors.CRF300.format(name=self.name, labels=repr(labels)))
        for label in labels if labels is not None else self._find_labels(get_examples()):
            self.add_label(label)
        self._require_labels()
        docs = list(islice((eg.predicted for eg in get_examples() if len(eg.predicted)), _N_SAMPLE_DOCS))
        if not docs:
            raise ValueError(Errors.CRF302.format(name=self.name))
        for node in (self.model, self.model.get_ref("output_layer")):
            node.set_dim("nO", len(self.tags), force=True)
        for node in self.model.walk():
            # An embedding with a list of what it knows makes it from all the training data.
            if "learn_vocabulary" in node.attrs:
                node.attrs["learn_vocabulary"](node, self._training_docs(get_examples(), nlp))
        self.model.initialize(X=docs)
        self._untrained_labels.clear()
        self._forget_fitted()

    def _training_docs(self, examples: Iterable[Example], nlp: Language | None) -> Iterator[Doc]:
        """Give the documents with the tokens that the component meets: behind a segmenter, those of the references."""
        names = nlp.pipe_names if nlp is not None else []
        before = names[: names.index(self.name)] if self.name in names else []
        has_words = any(nlp.get_pipe_meta(name).retokenizes for name in before) if nlp is not None else False
        return (example.reference if has_words else example.predicted for example in examples)

    def _find_labels(self, examples: Iterable[Example]) -> list[str]:
        """Collect the labels of the references, sorted."""
        raise NotImplementedError

    def _require_labels(self) -> None:
        if not self.tags or not self.cfg["labels"]:
            raise ValueError(Errors.CRF301.format(name=self.name))

    def _require_weights(self) -> None:
        self._require_labels()
        if not self.model.get_ref("output_layer").has_dim("nO"):
            raise ValueError(Errors.CRF201)

    def add_label(self, label: str) -> int:
        """Add a label. A trained model keeps what it has learnt for the others.

        label (str): The label.
        RETURNS (int): 1 if it is new, else 0.
        RAISES (ValueError): CRF002 or CRF003 if it cannot be a label.
        """
        check_label(label)
        if label in self.cfg["labels"]:
            return 0
        self.cfg["labels"].append(label)
        self._remember_labels()
        output_layer = self.model.get_ref("output_layer")
        if output_layer.has_dim("nO"):
            self._untrained_labels.add(label)
            width, n_known = len(self.tag_scheme.prefixes), len(self.cfg["labels"]) - 1
            first_tags = [int(self.tag_scheme.outside) + label * width for label in range(n_known)]
            like = [[first + prefix for first in first_tags] for prefix in range(width)]
            self.model.attrs["resize_output"](self.model, len(self.tags), like)
        return 1
