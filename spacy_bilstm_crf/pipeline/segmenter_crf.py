"""`segmenter_crf`: trainable word segmentation for text that is written without spaces, with a BiLSTM-CRF."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example, validate_get_examples
from spacy.vocab import Vocab
from thinc.api import Config

from ..errors import Errors, Warnings
from ..tag_scheme import TagScheme
from ..types import Annotation, BoolArray, CRFModel, IntArray
from .borders import preset_borders, text_borders
from .crf_pipe import CRFPipe
from .gold_words import read_gold_words
from .retokenize import merge_tokens

DEFAULT_CONFIG = """
[model]
@architectures = "spacy-bilstm-crf.BiLSTMCRF.v1"
hidden_width = 128
depth = 1
crf = true
constrained = true
mixed_precision = false

[model.tok2vec]
@architectures = "spacy-bilstm-crf.CharNgramEmbed.v1"
"""
DEFAULT_MODEL = Config().from_str(DEFAULT_CONFIG)["model"]
WORDS_KEY = "preset_words"


@Language.factory(
    "segmenter_crf",
    retokenizes=True,
    default_config={
        "model": DEFAULT_MODEL,
        "words_key": WORDS_KEY,
        "scorer": {"@scorers": "spacy-bilstm-crf.segmentation_scorer.v1"},
    },
    default_score_weights={"token_f": 1.0, "token_p": 0.0, "token_r": 0.0, "token_acc": 0.0, "token_oov_r": 0.0},
)
def make_segmenter_crf(
    nlp: Language, name: str, model: CRFModel, words_key: str | None, scorer: Callable | None
) -> "SegmenterCRF":
    """Make a BiLSTM-CRF word segmenter.

    nlp (Language): The pipeline.
    name (str): The name of the component.
    model (Model): From documents of characters to `CRFPotentials`.
    words_key (str | None): Where `doc.spans` holds words that are known beforehand.
    scorer (Callable | None): The scoring method.
    RETURNS (SegmenterCRF): The pipe.
    """
    return SegmenterCRF(nlp.vocab, model, name, words_key=words_key, scorer=scorer)


@dataclass
class WordPredictions:
    """The words found in a batch, before they are made.

    starts (list[IntArray]): For each document, the index of the first token of each word.
        (n_words,) int64
    """

    starts: list[IntArray]


class SegmenterCRF(CRFPipe):
    """Word segmenter that decodes the best legal path of a linear-chain CRF over the tags B, M, E and S.

    It stands before every component that needs words, behind a tokenizer that gives characters, and gives other Docs
    than it gets: with words for tokens and everything else moved over.
    """

    def __init__(
        self,
        vocab: Vocab,
        model: CRFModel,
        name: str = "segmenter_crf",
        *,
        words_key: str | None = WORDS_KEY,
        scorer: Callable | None = None,
    ) -> None:
        """Make the pipe.

        vocab (Vocab): The shared vocabulary.
        model (Model): From documents of characters to `CRFPotentials`.
        name (str): The name of the component, also used for its losses.
        words_key (str | None): Where `doc.spans` holds words that are known beforehand.
        scorer (Callable | None): The scoring method.
        """
        scheme = TagScheme("BMES", outside=False)
        super().__init__(vocab, model, name, tag_scheme=scheme, scorer=scorer, words_key=words_key, known_words=[])
        self.cfg["labels"] = [""]
        self.n_lost_borders = 0

    @property
    def labels(self) -> tuple[str, ...]:
        """RETURNS (tuple[str, ...]): The tags. There is nothing to choose, as in spaCy's `senter`."""
        return tuple(self.tags)

    @property
    def label_data(self) -> None:  # type: ignore[override]
        """RETURNS (None): There are no labels to initialize with."""
        return None

    def add_label(self, label: str) -> int:
        """Refuse: a segmenter has no labels.

        label (str): The label.
        RAISES (ValueError): CRF332.
        """
        raise ValueError(Errors.CRF332.format(name=self.name, label=label))

    def __call__(self, doc: Doc) -> Doc | None:
        """Make the words of a document.

        doc (Doc): A document of characters. It is left as it is.
        RETURNS (Doc | None): A document of words; None if there was an error that the error handler lets pass.
        """
        try:
            return self.annotate([doc])[0]
        except Exception as error:
            self.get_error_handler()(self.name, self, [doc], error)
        return None

    def annotate(self, docs: list[Doc]) -> list[Doc]:
        """Make the words of documents.

        docs (list[Doc]): Documents of characters. They are left as they are.
        RETURNS (list[Doc]): Documents of words.
        """
        return self.make_words(docs, self.predict(docs))

    def predict(self, docs: Iterable[Doc]) -> WordPredictions:
        """Find the words of documents, without changing them.

        docs (Iterable[Doc]): The documents.
        RETURNS (WordPredictions): What was found.
        """
        docs = list(docs)
        lengths = numpy.fromiter(map(len, docs), dtype="int64", count=len(docs))
        index, starts, _, _ = self.tag_scheme.ids_to_spans(self.predict_tags(docs), lengths)
        splits = numpy.searchsorted(index, numpy.arange(1, len(docs)))
        return WordPredictions(numpy.split(starts, splits)[: len(docs)])

    def make_words(self, docs: Iterable[Doc], predictions: WordPredictions) -> list[Doc]:
        """Make the words that were found.

        docs (Iterable[Doc]): The documents. They are left as they are.
        predictions (WordPredictions): What `predict` returned for them.
        RETURNS (list[Doc]): Documents of words.
        """
        return [merge_tokens(doc, starts) for doc, starts in zip(docs, predictions.starts, strict=True)]

    def set_annotations(self, docs: Iterable[Doc], scores: WordPredictions) -> None:
        """Refuse: a Doc cannot be given other tokens in place. Use `make_words`.

        docs (Iterable[Doc]): The documents.
        scores (WordPredictions): What `predict` returned for them.
        """
        raise NotImplementedError(Errors.CRF333.format(name=self.name))

    def get_possible_tags(self, docs: list[Doc], *, is_train: bool) -> BoolArray | None:
        """Tell which tags the text and, at prediction, words, entities and sentences set before leave to each token.

        docs (list[Doc]): The documents.
        is_train (bool): Whether the tags are wanted for training, where earlier annotation is not binding.
        RETURNS (BoolArray | None): None if every token may have every tag.
            (n_tokens, n_tags) bool
        """
        borders = text_borders(docs)
        if not is_train:
            borders = borders.combine(preset_borders(docs, self.cfg["words_key"]))
        return borders.possible_tags(self.tag_scheme) if borders.is_informative() else None

    def get_annotation(self, examples: list[Example], possible_tags: BoolArray | None) -> Annotation:
        """Read the words of the references, or what is known of them.

        examples (list[Example]): The examples.
        possible_tags (BoolArray | None): What `get_possible_tags` gave for them.
        RETURNS (Annotation): The gold tags of the predicted documents' tokens.
        RAISES (ValueError): CRF330 or CRF331 if single borders cannot be read.
        """
        gold = read_gold_words(examples)
        text = text_borders([eg.predicted for eg in examples])
        borders = gold.borders.combine(text)
        n_lost = gold.n_lost + gold.borders.count_contradictions(text)
        if n_lost and not self.n_lost_borders:
            warnings.warn(Warnings.CRF352.format(name=self.name, n_borders=n_lost), stacklevel=2)
        self.n_lost_borders += n_lost
        return borders.annotation(self.tag_scheme)

    def initialize(  # type: ignore[override]
        self, get_examples: Callable[[], Iterable[Example]], *, nlp: Language | None = None
    ) -> None:
        """Make the model's weights and remember the words of the training data, for the score of unknown words.

        get_examples (Callable): Gives the training examples.
        nlp (Language | None): The pipeline.
        RAISES (ValueError): CRF302 if no example has a token.
        """
        validate_get_examples(get_examples, f"{type(self).__name__}.initialize")
        words: set[str] = set()
        has_words = True
        for example in get_examples():
            words.update(token.text for token in example.reference)
            has_words = has_words and len(example.predicted) == len(example.reference)
        if has_words:
            warnings.warn(Warnings.CRF353.format(name=self.name), stacklevel=2)
        self.cfg["known_words"] = sorted(words)
        super().initialize(get_examples, nlp=nlp, labels=[])
