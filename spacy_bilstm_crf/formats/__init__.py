"""Readers of annotated text: tagged tokens, character offsets, segmented text."""

from collections.abc import Iterator
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc

from .columns import read_lines
from .offsets import read_jsonl
from .options import FORMATS, UNSPACED_LANGS, ReadOptions
from .report import Finding, ReadReport
from .spelling import looks_like_tag
from .tagged import read_tagged
from .words import read_conllu, read_segmented

__all__ = [
    "FORMATS",
    "UNSPACED_LANGS",
    "Finding",
    "ReadOptions",
    "ReadReport",
    "detect_format",
    "read_conllu",
    "read_docs",
    "read_jsonl",
    "read_segmented",
    "read_tagged",
]

_BY_SUFFIX = {".jsonl": "jsonl", ".ndjson": "jsonl", ".conllu": "conllu", ".seg": "seg"}


def read_docs(
    path: str | Path, nlp: Language, *, options: ReadOptions | None = None, report: ReadReport | None = None
) -> Iterator[Doc]:
    """Read the Docs of a file in any of the formats.

    path (str | Path): The file.
    nlp (Language): The language of the text: its vocab, and its tokenizer for texts that are not tokenized.
    options (ReadOptions | None): What is known about the file.
    report (ReadReport | None): Takes counts, and what was repaired or left out.
    YIELDS (Doc): The Docs.
    RAISES (ValueError): CRF401 to CRF407 if the file cannot be read.
    """
    options = options or ReadOptions()
    kind = detect_format(path, nlp.vocab.lang, options) if options.format == "auto" else options.format
    if kind == "jsonl":
        return read_jsonl(path, nlp, options=options, report=report)
    reader = {"tagged": read_tagged, "seg": read_segmented, "conllu": read_conllu}[kind]
    return reader(path, nlp.vocab, options=options, report=report)


def detect_format(path: str | Path, lang: str, options: ReadOptions) -> str:
    """Find out the format of a file from its name and its first lines.

    path (str | Path): The file.
    lang (str): Language of its text: segmented text is expected only where words are written without spaces.
    options (ReadOptions): What is known about the file.
    RETURNS (str): The format, as in `ReadOptions`.
    RAISES (ValueError): CRF401 if the file cannot be decoded.
    """
    path = Path(path)
    if path.suffix.lower() in _BY_SUFFIX:
        return _BY_SUFFIX[path.suffix.lower()]
    lines = [line for line in read_lines(path, options.encoding)[:1000] if line.strip()]
    if lines and all(line.lstrip().startswith(("{", '["')) for line in lines):
        return "jsonl"
    n_tagged = sum(len(line.split()) > 1 and looks_like_tag(line.split()[-1]) for line in lines)
    return "seg" if lang in UNSPACED_LANGS and 2 * n_tagged < len(lines) else "tagged"
