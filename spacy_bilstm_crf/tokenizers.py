"""A tokenizer for segmenters: characters, or what is written as one."""

from collections.abc import Callable

from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import DummyTokenizer
from spacy.vocab import Vocab

from .characters import split_units


class CharacterTokenizer(DummyTokenizer):
    """Cut a text into the smallest units that words are made of, for a segmenter to put together.

    In scripts written without spaces (Chinese, Japanese, Thai, ...) a unit is a character with its marks. A run of
    digits, of white space, or of other letters up to the next capital, is one unit: "iPhone 12很好" becomes
    i|Phone|12|很|好. It has nothing to learn and works for every language.

    vocab (Vocab): The shared vocabulary.
    """

    def __init__(self, vocab: Vocab) -> None:
        self.vocab = vocab

    def __call__(self, text: str) -> Doc:
        """Tokenize a text.

        text (str): The text.
        RETURNS (Doc): Its units; joined they give the text back.
        """
        words, spaces = split_units(text)
        return Doc(self.vocab, words=words, spaces=spaces)


def make_character_tokenizer_v1() -> Callable[[Language], CharacterTokenizer]:
    """Make a factory of tokenizers. Registered as `spacy-bilstm-crf.CharacterTokenizer.v1`.

    RETURNS (Callable): From a pipeline to its tokenizer.
    """
    return lambda nlp: CharacterTokenizer(nlp.vocab)
