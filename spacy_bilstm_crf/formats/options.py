"""What a reader can be told."""

from dataclasses import dataclass

from ..errors import Errors

FORMATS = ("auto", "tagged", "jsonl", "seg", "conllu")
# Languages written without spaces between words: their Docs are made with `spaces` all False.
UNSPACED_LANGS = frozenset({"bo", "ja", "km", "lo", "my", "th", "zh"})


@dataclass(frozen=True)
class ReadOptions:
    """Options of all readers. A reader ignores what does not concern its format.

    format (str): "tagged" (a token and its tag per line), "jsonl" (text with character offsets), "seg" (a sentence per
        line, words separated by a space), "conllu", or "auto".
    scheme (str): "IOB1", "IOB2" (BIO), "BIOES", "BILUO", "BMES", "IO" or "auto".
    token_column (int | None): Column of the token, from 1, or from -1 at the right. None: the first, or the second if
        the first one numbers the tokens.
    tag_column (int): Column of the tag, counted in the same way.
    unknown_tag (str | None): What stands in the tag column for "not annotated", e.g. "?".
    strict (bool): Raise an error where the file is not as its scheme demands, instead of repairing it.
    n_sents (int): Sentences per Doc, 0 for whole documents as they are marked in the file.
    max_tokens (int): Sentences longer than this are cut, never inside of an entity. 0 for no limit.
    encoding (str): Encoding of the file. A byte order mark is left out.
    RAISES (ValueError): CRF400 if an option has a value that it cannot have.
    """

    format: str = "auto"
    scheme: str = "auto"
    token_column: int | None = None
    tag_column: int = -1
    unknown_tag: str | None = None
    strict: bool = False
    n_sents: int = 1
    max_tokens: int = 1000
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        checks = {
            "format": (self.format in FORMATS, f"one of {', '.join(FORMATS)}"),
            "token_column": (self.token_column != 0, "a column from 1, or from -1 at the right"),
            "tag_column": (self.tag_column != 0, "a column from 1, or from -1 at the right"),
            "unknown_tag": (self.unknown_tag not in ("", "O"), "a mark that is not empty and not the tag O"),
            "n_sents": (self.n_sents >= 0, "0 or more"),
            "max_tokens": (self.max_tokens >= 0, "0 or more"),
        }
        for name, (is_good, expected) in checks.items():
            if not is_good:
                raise ValueError(Errors.CRF400.format(name=name, value=repr(getattr(self, name)), expected=expected))
