"""Reader of JSONL: a text and its entities as character offsets on each line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import filter_spans

from ..errors import Errors
from .columns import read_lines
from .options import ReadOptions
from .report import Finding, ReadReport

# Names of the list of entities, and of what an entity says, in use by annotation tools.
_LIST_KEYS = ("entities", "spans", "ents", "label", "labels")
_SPAN_KEYS = (("start", "start_offset"), ("end", "end_offset"), ("label",))
_REJECTED = ("reject", "ignore")
_Offsets = tuple[int, int, str]


def read_jsonl(
    path: str | Path, nlp: Language, *, options: ReadOptions | None = None, report: ReadReport | None = None
) -> Iterator[Doc]:
    """Read Docs from texts with entities as character offsets.

    A line is `{"text": ..., "entities": [...]}` ("spans" and "ents" are known as well) with `[start, end, label]` or
    `{"start": ..., "end": ..., "label": ...}` for each entity. Without such a list, nothing is known about the text. Of
    overlapping entities the longest is kept. The tokens of an entity that does not begin and end with a token are
    missing in the Doc.

    path (str | Path): The file.
    nlp (Language): Makes the Docs: only its tokenizer is used.
    options (ReadOptions | None): Strictness and encoding.
    report (ReadReport | None): Takes counts, and what was left out.
    YIELDS (Doc): A Doc per line.
    RAISES (ValueError): CRF401 if the file cannot be decoded, CRF403 if reading is strict and an entity cannot be kept,
        CRF407 if a line is not as described.
    """
    options, report = options or ReadOptions(), report or ReadReport()
    report.path, report.format = str(path), "jsonl"
    for number, line in enumerate(read_lines(Path(path), options.encoding), 1):
        if not line.strip():
            continue
        record = _parse(line, number, report.path)
        if record.get("answer") in _REJECTED:
            report.n_skipped += 1
            continue
        doc = nlp.make_doc(record["text"])
        annotation = next((record[key] for key in _LIST_KEYS if isinstance(record.get(key), list)), None)
        if annotation is not None:
            _annotate(doc, annotation, number, options.strict, report)
        report.n_sents += 1
        yield report.count_doc(doc)


def _parse(line: str, number: int, path: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(Errors.CRF407.format(path=path, line=number, found=f"{error}: {line[:80]!r}")) from error
    # spaCy's former training format: ["text", {"entities": [...]}]
    if isinstance(record, list) and len(record) == 2 and isinstance(record[1], dict):
        record = {**record[1], "text": record[0]}
    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
        raise ValueError(Errors.CRF407.format(path=path, line=number, found=repr(line[:80])))
    return record


def _annotate(doc: Doc, annotation: list[Any], number: int, strict: bool, report: ReadReport) -> None:
    spans: list[Span] = []
    is_missing = [False] * len(doc)
    for item in annotation:
        offsets = _read_offsets(item, doc.text)
        if offsets is None:
            report.add(Finding.INVALID_SPAN, number, _shorten(item), strict=strict)
            continue
        start, end, label = _trim(offsets, doc.text)
        if (start, end) != offsets[:2]:
            report.add(Finding.PADDED_SPAN, number, _show(offsets, doc.text), strict=strict)
        span = doc.char_span(start, end, label=label)
        if span is None:
            report.add(Finding.MISALIGNED_SPAN, number, _show(offsets, doc.text), strict=strict)
            for token in doc:
                is_missing[token.i] |= token.idx < end and start < token.idx + len(token)
        else:
            spans.append(span)
    kept = filter_spans(spans)
    _report_dropped(spans, kept, number, strict, report)
    for span in kept:
        is_missing[span.start : span.end] = [False] * len(span)
    missing = [doc[i : i + 1] for i, flag in enumerate(is_missing) if flag]
    doc.set_ents(kept, missing=missing, default="outside")


def _read_offsets(item: Any, text: str) -> _Offsets | None:
    """The offsets of an item, None if it is not a span of the text with a label."""
    if isinstance(item, dict):
        item = [next((item[key] for key in keys if key in item), None) for keys in _SPAN_KEYS]
    if not isinstance(item, list) or len(item) != 3:
        return None
    start, end, label = item
    if type(start) is not int or type(end) is not int or not isinstance(label, str) or not label:
        return None
    is_span = 0 <= start < end <= len(text) and text[start:end].strip()
    return (start, end, label) if is_span else None


def _trim(offsets: _Offsets, text: str) -> _Offsets:
    start, end, label = offsets
    inner = text[start:end]
    return start + len(inner) - len(inner.lstrip()), end - len(inner) + len(inner.rstrip()), label


def _report_dropped(spans: list[Span], kept: list[Span], number: int, strict: bool, report: ReadReport) -> None:
    for span in spans:
        if any(span is other for other in kept):
            continue
        over = next(other for other in kept if other.start < span.end and span.start < other.end)
        found = f"{span.text!r} ({span.label_}) in {over.text!r} ({over.label_})"
        report.add(Finding.OVERLAPPING_SPAN, number, found, strict=strict)


def _show(offsets: _Offsets, text: str) -> str:
    start, end, label = offsets
    return f"{start}-{end} {text[start:end]!r} ({label}) in {text[max(0, start - 15) : end + 15]!r}"


def _shorten(item: Any) -> str:
    return repr(item)[:80]
