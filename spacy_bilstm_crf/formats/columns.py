"""Lines of a file of tagged tokens: columns, comments, sentences."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..errors import Errors
from ..tag_scheme import OUTSIDE
from .options import ReadOptions
from .report import Finding, ReadReport
from .spelling import looks_like_tag

_DOCSTART = "-DOCSTART-"


class Row(NamedTuple):
    """A token and what stands in its tag column; None where the line has no such column."""

    line: int
    token: str
    tag: str | None


@dataclass
class Sentence:
    """The rows of a sentence, and whether a new document begins with it."""

    rows: list[Row]
    opens_document: bool = False


class _Line(NamedTuple):
    number: int
    text: str
    cells: list[str]

    @property
    def is_hash(self) -> bool:
        return self.text.startswith("#")


class _Layout(NamedTuple):
    n_columns: int
    token_index: int
    tag_index: int
    tabs: bool


def read_lines(path: Path, encoding: str) -> list[str]:
    """Read the lines of a text file, without their ends.

    path (Path): The file.
    encoding (str): Its encoding.
    RETURNS (list[str]): The lines. Only LF, CRLF and CR end one, since tokens may hold other line separators.
    RAISES (ValueError): CRF401 if the file is not in that encoding.
    """
    raw = path.read_bytes()
    try:
        text = raw.decode(encoding).removeprefix("\ufeff")
    except (UnicodeDecodeError, LookupError) as error:
        line = raw[: getattr(error, "start", 0)].count(b"\n") + 1
        raise ValueError(Errors.CRF401.format(path=path, line=line, encoding=encoding, error=error)) from error
    text = text.replace("\r\n", "\n")
    if "\n" not in text:
        text = text.replace("\r", "\n")
    return text.split("\n")


def read_sentences(lines: list[str], options: ReadOptions, report: ReadReport) -> list[Sentence]:
    """Find the token and the tag of each line, and the sentences.

    lines (list[str]): The lines of the file.
    options (ReadOptions): Columns, and what marks an unknown tag.
    report (ReadReport): Takes what was found.
    RETURNS (list[Sentence]): The sentences, none of them empty.
    RAISES (ValueError): CRF402 if a column does not exist, CRF403 if reading is strict and a line is not as the others,
        CRF404 if there is only one column.
    """
    tabs = _uses_tabs(lines)
    split = _split_tabs if tabs else _split_spaces
    table = [_Line(i, line, split(line)) if line.strip() else None for i, line in enumerate(lines, 1)]
    filled = [line for line in table if line]
    if not filled:
        return []
    layout = _find_layout(filled, tabs, options, report)
    is_comment = _comment_test(filled, layout, options.unknown_tag)
    sentences = [Sentence([])]
    for line in table:
        if line is None:
            sentences.append(Sentence([]))
        elif is_comment(line):
            report.n_comments += 1
        elif line.text.startswith(_DOCSTART):
            sentences.append(Sentence([], opens_document=True))
        else:
            sentences[-1].rows.append(_read_row(line, layout, options.strict, report))
    return _without_empty(sentences)


def _uses_tabs(lines: Iterable[str]) -> bool:
    tabs = Counter("\t" in line for line in lines if line.strip() and not line.startswith("#"))
    return tabs[True] > tabs[False]


def _split_tabs(line: str) -> list[str]:
    """Split at tabs, which leaves spaces in tokens. Tabs at the end of a line do not make columns."""
    cells = line.split("\t")
    while len(cells) > 1 and not cells[-1].strip():
        cells.pop()
    return cells


def _split_spaces(line: str) -> list[str]:
    """Split at spaces and tabs only: a no-break space belongs to its token."""
    return re.split("[ \t]+", line.strip(" \t"))


def _find_layout(table: list[_Line], tabs: bool, options: ReadOptions, report: ReadReport) -> _Layout:
    body = [line for line in table if not (line.is_hash or line.text.startswith(_DOCSTART))] or table
    n_columns = Counter(len(line.cells) for line in body).most_common(1)[0][0]
    if n_columns == 1:
        raise ValueError(Errors.CRF404.format(path=report.path, line=body[0].number, found=repr(body[0].text[:80])))
    body = [line for line in body if len(line.cells) == n_columns]
    tag_index = _index(options.tag_column, n_columns, "tag", report)
    if options.token_column is not None:
        token_index = _index(options.token_column, n_columns, "token", report)
    else:
        token_index = int(n_columns >= 3 and _counts_up(line.cells[0] for line in body))
        if token_index:
            report.notes.append("The first column numbers the tokens: tokens are read from column 2.")
    others = [i + 1 for i in range(n_columns) if i != tag_index and _is_tag_column(line.cells[i] for line in body)]
    if others:
        columns = ", ".join(map(str, others))
        report.notes.append(f"Tags are read from column {tag_index + 1}, but column {columns} holds tags as well.")
    return _Layout(n_columns, token_index, tag_index, tabs)


def _index(column: int, n_columns: int, name: str, report: ReadReport) -> int:
    index = column - 1 if column > 0 else n_columns + column
    if not 0 <= index < n_columns:
        raise ValueError(Errors.CRF402.format(path=report.path, name=name, column=column, n_columns=n_columns))
    return index


def _counts_up(cells: Iterable[str]) -> bool:
    """Whether cells number the tokens of sentences: 1, 2, 3, 1, 2, ... (or from 0)."""
    previous = n_up = 0
    for cell in cells:
        if not (cell.isascii() and cell.isdigit()) or int(cell) not in (0, 1, previous + 1):
            return False
        n_up += int(cell) == previous + 1
        previous = int(cell)
    return n_up > 0


def _is_tag_column(cells: Iterable[str]) -> bool:
    values = {cell.strip() for cell in cells}
    return all(map(looks_like_tag, values)) and values != {OUTSIDE}


def _comment_test(table: list[_Line], layout: _Layout, unknown_tag: str | None) -> Callable[[_Line], bool]:
    """Tell comments from tokens that begin with #: a token has as many columns as the others, and a tag."""
    n_columns, i = layout.n_columns, layout.tag_index
    known = {line.cells[i].strip() for line in table if not line.is_hash and len(line.cells) == n_columns}
    known = (known | {OUTSIDE, unknown_tag or OUTSIDE}) - {""}

    def is_comment(line: _Line) -> bool:
        if not line.is_hash:
            return False
        tag = line.cells[i].strip() if len(line.cells) == n_columns else ""
        return not (tag in known or looks_like_tag(tag))

    return is_comment


def _read_row(line: _Line, layout: _Layout, strict: bool, report: ReadReport) -> Row:
    cells = line.cells
    if len(cells) > layout.n_columns:
        cells = _fit(line, layout, strict, report)
    elif len(cells) == layout.n_columns - 1 and not layout.tabs and line.text[0] in " \t":
        cells = ["", *cells]  # " O": nothing stands before the separator
    token = cells[layout.token_index] if layout.token_index < len(cells) else ""
    if not token:
        report.add(Finding.BLANK_TOKEN, line.number, repr(line.text), strict=strict)
        token = " "
    tag = cells[layout.tag_index].strip() if layout.tag_index < len(cells) else ""
    if not tag:
        report.add(Finding.NO_TAG, line.number, repr(line.text), strict=strict)
    return Row(line.number, token, tag or None)


def _fit(line: _Line, layout: _Layout, strict: bool, report: ReadReport) -> list[str]:
    """Cells of a line that has too many: what comes after the others, or a token that holds spaces."""
    surplus = len(line.cells) - layout.n_columns
    report.add(Finding.EXTRA_COLUMNS, line.number, repr(line.text), strict=strict)
    if layout.tabs:
        return line.cells[:-surplus]
    first, last = layout.token_index, layout.token_index + surplus + 1
    return [*line.cells[:first], " ".join(line.cells[first:last]), *line.cells[last:]]


def _without_empty(sentences: list[Sentence]) -> list[Sentence]:
    """Leave out sentences without tokens; a document that opened with one opens with the next."""
    kept, opens = [], False
    for sentence in sentences:
        opens |= sentence.opens_document
        if sentence.rows:
            kept.append(Sentence(sentence.rows, opens))
            opens = False
    return kept
