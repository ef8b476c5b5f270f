"""Reader of files with a token and its tag per line."""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from spacy.pipeline import Sentencizer
from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

from ..errors import Warnings
from ..types import TAG_SCHEME_KEY, TAGS_KEY
from .columns import Row, read_lines, read_sentences
from .options import UNSPACED_LANGS, ReadOptions
from .partial import PartialTags, certain_spans, known_spans, repair_tags
from .report import Finding, ReadReport
from .spelling import Spelling, find_spelling


@dataclass
class _Piece:
    """A sentence, or a part of one that was too long: what goes into a Doc."""

    words: list[str]
    tags: list[str | None]
    opens_document: bool = False
    is_sentence: bool = True


def read_tagged(
    path: str | Path, vocab: Vocab, *, options: ReadOptions | None = None, report: ReadReport | None = None
) -> Iterator[Doc]:
    """Read Docs with entities from a file of tagged tokens.

    Tokens are kept as they are. What stood between them is not in such files, so that spaces are unknown in the Doc, or
    absent if the language of the vocab is written without. Tokens that are not annotated have a missing `ent_iob`, and
    Docs with such tokens keep all known tags: `doc.user_data["crf_tags"]` has a tag or None per token, in the scheme
    `doc.user_data["crf_tag_scheme"]`.

    path (str | Path): The file.
    vocab (Vocab): The vocab of the Docs.
    options (ReadOptions | None): Columns, scheme and strictness.
    report (ReadReport | None): Takes counts, and what was repaired.
    YIELDS (Doc): A Doc for every `options.n_sents` sentences.
    RAISES (ValueError): CRF401 to CRF405 if the file cannot be read, or not without repair and `options.strict` is set.
    """
    options, report = options or ReadOptions(), report or ReadReport()
    report.path, report.format = str(path), "tagged"
    lines = read_lines(Path(path), options.encoding)
    sentences = read_sentences(lines, options, report)
    texts = [[row.tag for row in sent.rows if row.tag and row.tag != options.unknown_tag] for sent in sentences]
    spelling = find_spelling(texts, options.scheme, path=report.path, hint=" ".join(report.notes))
    report.scheme, report.n_sents = spelling.name, len(sentences)
    if spelling.is_ambiguous:
        report.notes.append("No tag begins with B-: IOB1 without adjacent entities of one label, or IO. Read alike.")
    pieces = [
        _Piece(
            [row.token for row in sentence.rows],
            _read_tags(sentence.rows, spelling, options, report),
            sentence.opens_document,
        )
        for sentence in sentences
    ]
    if spelling.segments_words:
        yield from (report.count_doc(_make_words(piece, vocab, spelling)) for piece in pieces)
        return
    pieces = _cut_long(pieces, spelling, options.max_tokens, report)
    for group in _group(pieces, options.n_sents):
        yield report.count_doc(_make_doc(group, vocab, spelling))


def _read_tags(rows: list[Row], spelling: Spelling, options: ReadOptions, report: ReadReport) -> list[str | None]:
    tags: list[str | None] = []
    for row in rows:
        is_unknown = row.tag is None or row.tag == options.unknown_tag
        tag = None if is_unknown else spelling.read(row.tag or "")
        if tag is None and not is_unknown:
            report.add(Finding.UNREADABLE_TAG, row.line, repr(row.tag), strict=options.strict)
        tags.append(tag)
    for i, (before, after) in enumerate(pairwise([None, *tags, None])):
        is_border = i in (0, len(tags))
        if (is_border or (before and after)) and (before or after) and not spelling.allows(before, after):
            row = rows[min(i, len(rows) - 1)]
            found = f"{after or 'the end of the sentence'} after {before or 'the start of the sentence'}"
            report.add(Finding.ILLEGAL_TAG, row.line, found, strict=options.strict)
    return tags


def _cut_long(pieces: list[_Piece], spelling: Spelling, max_tokens: int, report: ReadReport) -> list[_Piece]:
    """Cut sentences that are longer than `max_tokens`, as in files that have no sentence breaks."""
    if not max_tokens or all(len(piece.words) <= max_tokens for piece in pieces):
        return pieces
    cut: list[_Piece] = []
    n_long = longest = 0
    for piece in pieces:
        n_tokens = len(piece.words)
        if n_tokens <= max_tokens:
            cut.append(piece)
            continue
        n_long, longest = n_long + 1, max(longest, n_tokens)
        borders = [0, *_find_cuts(piece, spelling, max_tokens), n_tokens]
        for start, end in pairwise(borders):
            opens = piece.opens_document and start == 0
            cut.append(_Piece(piece.words[start:end], piece.tags[start:end], opens, is_sentence=False))
    message = Warnings.CRF450.format(
        path=report.path, n_long=n_long, n_sents=len(pieces), max_tokens=max_tokens, longest=longest, n_pieces=len(cut)
    )
    warnings.warn(message, stacklevel=3)
    return cut


def _find_cuts(piece: _Piece, spelling: Spelling, max_tokens: int) -> Iterator[int]:
    """Find where a new part begins: after the end of a sentence if there is one in the second half of the limit."""
    sentence_ends = set(Sentencizer.default_punct_chars)
    can_cut = [True] * (len(piece.words) + 1)
    for first, last, _ in known_spans(piece.tags, spelling.scheme):
        can_cut[first + 1 : last] = [False] * (last - first - 1)
    for i, (before, after) in enumerate(pairwise(piece.tags), 1):
        can_cut[i] &= (before is None) == (after is None)  # an unknown token may belong to its neighbour's entity
    start = 0
    while len(piece.words) - start > max_tokens:
        limit = start + max_tokens
        places = [i for i in range(limit, start, -1) if can_cut[i]]
        good = [i for i in places if i > limit - max_tokens // 2 and piece.words[i - 1] in sentence_ends]
        beyond = (i for i in range(limit + 1, len(can_cut)) if can_cut[i])
        start = (good or places or [next(beyond)])[0]
        if start < len(piece.words):
            yield start


def _group(pieces: Iterable[_Piece], n_sents: int) -> Iterator[list[_Piece]]:
    """Put sentences together to Docs. Documents and parts of sentences are never mixed."""
    group: list[_Piece] = []
    for piece in pieces:
        is_full = n_sents and len(group) >= n_sents
        is_part = group and not (piece.is_sentence and group[-1].is_sentence)
        if group and (is_full or is_part or piece.opens_document):
            yield group
            group = []
        group.append(piece)
    if group:
        yield group


def _make_doc(pieces: list[_Piece], vocab: Vocab, spelling: Spelling) -> Doc:
    words = [word for piece in pieces for word in piece.words]
    doc = Doc(vocab, words=words, spaces=_spaces(words, vocab), sent_starts=_sent_starts(pieces))
    entities, missing, known = [], [], []
    offset = 0
    for piece in pieces:
        spans, unknown = certain_spans(piece.tags, spelling.scheme)
        entities += [Span(doc, offset + start, offset + end, label=label) for start, end, label in spans]
        missing += [Span(doc, offset + start, offset + end) for start, end in unknown]
        known += repair_tags(piece.tags, spelling.scheme)
        offset += len(piece.words)
    doc.set_ents(entities, missing=missing, default="outside")
    if None in known:
        doc.user_data.update(_known_tags(known, spelling))
    return doc


def _known_tags(tags: PartialTags, spelling: Spelling) -> dict[str, object]:
    """The tags as they can be relied on. After an unknown token, IOB1 does not say whether I begins an entity."""
    if spelling.name != "IOB1":
        return {TAGS_KEY: list(tags), TAG_SCHEME_KEY: spelling.scheme.name}
    return {TAGS_KEY: [tag and tag.replace("B-", "I-", 1) for tag in tags], TAG_SCHEME_KEY: "IO"}


def _spaces(words: list[str], vocab: Vocab) -> list[bool] | None:
    return [False] * len(words) if vocab.lang in UNSPACED_LANGS else None


def _sent_starts(pieces: list[_Piece]) -> list[bool | int | None]:
    starts: list[bool | int | None] = []
    for piece in pieces:
        rest = [False if piece.is_sentence else None] * (len(piece.words) - 1)
        starts += [True if piece.is_sentence else None, *rest]
    return starts


def _make_words(piece: _Piece, vocab: Vocab, spelling: Spelling) -> Doc:
    """Join characters that are tagged with their place in a word."""
    known = [tag or "S" for tag in piece.tags]
    words = ["".join(piece.words[start:end]) for start, end, _ in spelling.scheme.tags_to_spans(known)]
    return Doc(vocab, words=words, spaces=[False] * len(words))
