"""Readers of segmented text: words are known, entities are not."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from spacy.tokens import Doc
from spacy.vocab import Vocab

from ..errors import Errors
from .columns import read_lines
from .options import UNSPACED_LANGS, ReadOptions
from .report import ReadReport

_N_CONLLU_COLUMNS = 10


class _Words(NamedTuple):
    words: list[str]
    spaces: list[bool]


def read_segmented(
    path: str | Path, vocab: Vocab, *, options: ReadOptions | None = None, report: ReadReport | None = None
) -> Iterator[Doc]:
    """Read Docs from a file with a sentence per line and words separated by spaces.

    The spaces are there to show the words: the text of a Doc has none.

    path (str | Path): The file.
    vocab (Vocab): The vocab of the Docs.
    options (ReadOptions | None): Sentences per Doc and encoding.
    report (ReadReport | None): Takes counts.
    YIELDS (Doc): A Doc for every `options.n_sents` sentences, without entity annotation.
    RAISES (ValueError): CRF401 if the file cannot be decoded.
    """
    options, report = options or ReadOptions(), report or ReadReport()
    report.path, report.format = str(path), "seg"
    lines = (line.split() for line in read_lines(Path(path), options.encoding))
    sentences = (_Words(words, [False] * len(words)) for words in lines if words)
    yield from _make_docs(sentences, vocab, options, report)


def read_conllu(
    path: str | Path, vocab: Vocab, *, options: ReadOptions | None = None, report: ReadReport | None = None
) -> Iterator[Doc]:
    """Read the words of a CoNLL-U file as they stand in the text: "du" rather than "de" and "le".

    path (str | Path): The file.
    vocab (Vocab): The vocab of the Docs. If its language is written without spaces, the Docs have none, otherwise they
        follow `SpaceAfter=No`.
    options (ReadOptions | None): Sentences per Doc and encoding.
    report (ReadReport | None): Takes counts.
    YIELDS (Doc): A Doc for every `options.n_sents` sentences, without entity annotation.
    RAISES (ValueError): CRF401 if the file cannot be decoded, CRF406 if a line is not CoNLL-U.
    """
    options, report = options or ReadOptions(), report or ReadReport()
    report.path, report.format = str(path), "conllu"
    lines = read_lines(Path(path), options.encoding)
    yield from _make_docs(_conllu_sentences(lines, vocab.lang in UNSPACED_LANGS, report), vocab, options, report)


def _conllu_sentences(lines: list[str], unspaced: bool, report: ReadReport) -> Iterator[_Words]:
    sentence = _Words([], [])
    covered = 0  # words up to this one are part of a token that has been read
    for number, line in enumerate([*lines, ""], 1):
        if not line.strip():
            if sentence.words:
                yield sentence
            sentence, covered = _Words([], []), 0
        elif line.startswith("#"):
            report.n_comments += 1
        else:
            cells = line.split("\t")
            first, is_range, last = cells[0].partition("-")
            if len(cells) != _N_CONLLU_COLUMNS or not (last if is_range else first.replace(".", "", 1)).isdigit():
                raise ValueError(Errors.CRF406.format(path=report.path, line=number, found=repr(line[:80])))
            if "." in first or (not is_range and int(first) <= covered):
                continue
            covered = int(last) if is_range else covered
            sentence.words.append(cells[1])
            sentence.spaces.append(not unspaced and "SpaceAfter=No" not in cells[-1].split("|"))


def _make_docs(sentences: Iterator[_Words], vocab: Vocab, options: ReadOptions, report: ReadReport) -> Iterator[Doc]:
    while group := list(islice(sentences, options.n_sents or None)):
        report.n_sents += len(group)
        yield report.count_doc(
            Doc(
                vocab,
                words=[word for sentence in group for word in sentence.words],
                spaces=[space for sentence in group for space in sentence.spaces],
                sent_starts=[i == 0 for sentence in group for i in range(len(sentence.words))],
            )
        )
