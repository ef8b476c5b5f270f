"""`segmenter_crf`: trainable word segmentation for text that is written without spaces, with a BiLSTM-CRF."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from spacy.attrs import IDX
from spacy.language import Language
from spacy.tokens import Doc, Token
from spacy.training import Example, validate_get_examples
from spacy.vocab import Vocab
from thinc.api import Config

from ..errors import Errors, Warnings
from ..probabilities import Distribution, allowed_log_probs
from ..tag_scheme import TagScheme
from ..types import BORDERS_KEY, Annotation, BoolArray, CRFModel, FloatArray
from .character_batch import CharacterBatch
from .crf_pipe import CRFPipe
from .extensions import register_extensions
from .gold_words import read_gold_words, segmented_batches
from .retokenize import make_words
from .word_batch import Segmentation, WordBatch, Words

DEFAULT_CONFIG = """
[model]
@architectures = "spacy-bilstm-crf.BiLSTMCRF.v1"
hidden_width = 64
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
        "prob_attr": None,
        "scorer": {"@scorers": "spacy-bilstm-crf.segmentation_scorer.v1"},
    },
    default_score_weights={"token_f": 1.0, "token_p": 0.0, "token_r": 0.0, "token_acc": 0.0, "token_oov_r": 0.0},
)
def make_segmenter_crf(
    nlp: Language, name: str, model: CRFModel, words_key: str | None, prob_attr: str | None, scorer: Callable | None
) -> "SegmenterCRF":
    """Make a BiLSTM-CRF word segmenter.

    nlp (Language): The pipeline.
    name (str): The name of the component.
    model (Model): From documents of characters to `CRFPotentials`.
    words_key (str | None): Where `doc.spans` holds words that are known beforehand.
    prob_attr (str | None): Name of the extension attribute of tokens for the probability of a word. None for none.
    scorer (Callable | None): The scoring method.
    RETURNS (SegmenterCRF): The pipe.
    RAISES (ValueError): CRF320 if the attribute's name is taken.
    """
    return SegmenterCRF(nlp.vocab, model, name, words_key=words_key, prob_attr=prob_attr, scorer=scorer)


@dataclass
class WordPredictions:
    """The words found in a batch, before they are made.

    characters (CharacterBatch): The documents.
    words (Words): The words.
    probabilities (FloatArray | None): The probability of each word, if it is wanted.
        (n_words,) float64
    """

    characters: CharacterBatch
    words: Words
    probabilities: FloatArray | None = None


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
        prob_attr: str | None = None,
        scorer: Callable | None = None,
    ) -> None:
        """Make the pipe.

        vocab (Vocab): The shared vocabulary.
        model (Model): From documents of characters to `CRFPotentials`.
        name (str): The name of the component, also used for its losses.
        words_key (str | None): Where `doc.spans` holds words that are known beforehand.
        prob_attr (str | None): Name of the extension attribute of tokens for the probability of a word.
        scorer (Callable | None): The scoring method.
        """
        cfg: dict[str, Any] = {"words_key": words_key, "prob_attr": prob_attr}
        super().__init__(vocab, model, name, tag_scheme=TagScheme("BMES", outside=False), scorer=scorer, **cfg)
        self.cfg["known_words"] = []
        if prob_attr is not None:
            register_extensions(prob_attr, of=Token)
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
        return self.make_words(self.predict(docs))

    def predict(self, docs: Iterable[Doc]) -> WordPredictions:
        """Find the words of documents, without changing them.

        docs (Iterable[Doc]): The documents.
        RETURNS (WordPredictions): What was found.
        """
        characters = CharacterBatch.from_docs(list(docs))
        batch = self._read_batch(characters)
        words = batch.best_words()
        probabilities = None if self.cfg["prob_attr"] is None else batch.probabilities(words)
        return WordPredictions(characters, words, probabilities)

    def _read_batch(self, characters: CharacterBatch) -> WordBatch:
        """Find the distribution over tag paths."""
        self._require_weights()
        borders = characters.text_borders().combine(characters.preset_borders(self.cfg["words_key"]))
        possible = borders.possible_tags(self.tag_scheme) if borders.is_informative() else None
        potentials = self.model.predict(list(characters.docs))
        return WordBatch(self.tag_scheme, Distribution(potentials, self.allowed_transitions, possible))

    def n_best(self, docs: Iterable[Doc], n: int = 5) -> list[list[Segmentation]]:
        """Find the n most probable segmentations, without changing the documents.

        docs (Iterable[Doc]): Documents of characters.
        n (int): Number of segmentations.
        RETURNS (list[list[Segmentation]]): For each document its segmentations, most probable first; fewer than n where
            there are no more.
        RAISES (ValueError): CRF322 if n is less than 1.
        """
        characters = CharacterBatch.from_docs(list(docs))
        return self._read_batch(characters).n_best(characters.docs, n)

    def log_prob(self, examples: Iterable[Example]) -> FloatArray:
        """Compute how probable the words of references are. What is not known of them is left open.

        examples (Iterable[Example]): Documents of characters with references of words.
        RETURNS (FloatArray): Log probabilities, in nats, at most 0.
            (n_examples,) float64
        """
        examples = list(examples)
        distribution = self._read_batch(CharacterBatch.from_docs([eg.predicted for eg in examples])).distribution
        return allowed_log_probs(distribution, read_gold_words(examples).borders.possible_tags(self.tag_scheme))

    def make_words(self, predictions: WordPredictions) -> list[Doc]:
        """Make the words that were found.

        predictions (WordPredictions): What `predict` returned for documents. These are left as they are.
        RETURNS (list[Doc]): Documents of words.
        """
        made = make_words(predictions.characters, predictions.words)
        if predictions.probabilities is not None:
            probabilities = iter(predictions.probabilities.tolist())
            for doc in made:
                # What `token._.prob = ...` does, without a Token for each.
                keys: Any = (("._.", self.cfg["prob_attr"], start, None) for start in doc.to_array([IDX]).tolist())
                doc.user_data.update(zip(keys, islice(probabilities, len(doc)), strict=True))
        return made

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
        characters = CharacterBatch.from_docs(docs)
        borders = characters.text_borders()
        if not is_train:
            borders = borders.combine(characters.preset_borders(self.cfg["words_key"]))
        return borders.possible_tags(self.tag_scheme) if borders.is_informative() else None

    def get_annotation(self, examples: list[Example], possible_tags: BoolArray | None) -> Annotation:
        """Read the words of the references, or what is known of them.

        examples (list[Example]): The examples.
        possible_tags (BoolArray | None): What `get_possible_tags` gave for them.
        RETURNS (Annotation): The gold tags of the predicted documents' tokens.
        RAISES (ValueError): CRF330 or CRF331 if single borders cannot be read.
        """
        gold = read_gold_words(examples)
        text = CharacterBatch.from_docs([eg.predicted for eg in examples]).text_borders()
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
        is_cut = False
        for example in get_examples():
            # Tokens of a reference with single borders need not be words.
            has_words = BORDERS_KEY not in example.reference.user_data
            words.update(token.text for token in example.reference if has_words)
            is_cut |= len(example.predicted) != len(example.reference)
        if words and not is_cut:
            warnings.warn(Warnings.CRF353.format(name=self.name), stacklevel=2)
        self.cfg["known_words"] = sorted(words)
        for node in self.model.walk():
            if "learn_words" in node.attrs:
                node.attrs["learn_words"](node, segmented_batches(get_examples()))
        super().initialize(get_examples, nlp=nlp, labels=[])
