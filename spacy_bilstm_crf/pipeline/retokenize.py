"""Documents with other tokens: those of a document, put together into words.

spaCy's retokenizer changes a Doc in place, one merge after another, and leaves span groups behind. Here a new Doc is
made, in time linear in its length, and everything that hangs on the old one is moved over.
"""

from typing import Any

import numpy
from spacy.attrs import ENT_ID, ENT_IOB, ENT_KB_ID, ENT_TYPE, SENT_START
from spacy.tokens import Doc, Span, SpanGroup
from thinc.backends import get_array_ops

from ..types import IntArray
from .character_batch import CharacterBatch
from .word_batch import Words

_KEPT_ATTRS = [ENT_IOB, ENT_TYPE, ENT_KB_ID, ENT_ID, SENT_START]
_EXTENSION = "._."


def make_words(batch: CharacterBatch, words: Words) -> list[Doc]:
    """Make documents whose tokens are words, each made of tokens of the documents of a batch.

    The text is the same to the last character. A word has the entity and sentence annotation of its first token, and
    the mean of its rows of `tensor`. Spans, in span groups and with the values of their extension attributes, grow to
    the words that they touch. Other annotation of tokens (tags, lemmas, ...) was about characters and is not kept.

    batch (CharacterBatch): The documents. They are left as they are.
    words (Words): The words, in order, every token in one of them.
    RETURNS (list[Doc]): The new documents.
    """
    starts, ends = batch.offsets
    first_characters, last_characters = starts[words.starts].tolist(), ends[words.ends - 1].tolist()
    spaces = batch.has_space[words.ends - 1].tolist()
    has_annotation = batch.has_annotation().tolist()
    made, first = [], 0
    first_tokens = words.starts_by_doc(numpy.cumsum(batch.lengths) - batch.lengths)
    for doc, text, tokens, is_annotated in zip(batch.docs, batch.texts, first_tokens, has_annotation, strict=True):
        last = first + len(tokens)
        bounds = zip(first_characters[first:last], last_characters[first:last], strict=True)
        strings = [text[start:end] for start, end in bounds]
        new = Doc(doc.vocab, words=strings, spaces=spaces[first:last], user_data=dict(doc.user_data))
        _move_document(doc, new, tokens)
        if is_annotated:
            kept: Any = doc.to_array(_KEPT_ATTRS)[tokens]
            new.from_array(_KEPT_ATTRS, kept)
        if doc.spans or any(map(_is_span_key, doc.user_data)):
            word_of = numpy.searchsorted(tokens, numpy.arange(len(doc)), side="right") - 1  # (n_tokens,)
            _move_spans(doc, new, word_of.tolist())
            _move_span_extensions(doc, new)
        made.append(new)
        first = last
    return made


def _move_document(doc: Any, new: Any, starts: IntArray) -> None:
    new.cats = dict(doc.cats)
    new.sentiment = doc.sentiment
    new.has_unknown_spaces = doc.has_unknown_spaces
    new.noun_chunks_iterator = doc.noun_chunks_iterator
    new.user_hooks = dict(doc.user_hooks)
    new.user_token_hooks = dict(doc.user_token_hooks)
    new.user_span_hooks = dict(doc.user_span_hooks)
    # What `nlp.pipe(as_tuples=True)` gives back.
    new._context = doc._context
    if doc.tensor.size and len(doc.tensor) == len(doc):
        ops = get_array_ops(doc.tensor)
        lengths = numpy.diff(starts, append=len(doc))
        new.tensor = ops.reduce_mean(doc.tensor, ops.asarray1i(lengths))


def _move_spans(doc: Doc, new: Doc, word_of: list[int]) -> None:
    ends = [*word_of, len(new)]
    for key, group in doc.spans.items():
        spans = [
            Span(
                new,
                ends[span.start],
                ends[span.end - 1] + 1 if len(span) else ends[span.start],
                label=span.label,
                kb_id=span.kb_id,
                span_id=span.id,
            )
            for span in group
        ]
        new.spans[key] = SpanGroup(new, name=group.name, attrs=group.attrs, spans=spans)


def _is_span_key(key: Any) -> bool:
    # spaCy keeps the values of a Span's extension attributes by its first and last character.
    return isinstance(key, tuple) and len(key) == 4 and key[0] == _EXTENSION and None not in key[2:]


def _move_span_extensions(doc: Doc, new: Doc) -> None:
    user_data: dict[Any, Any] = new.user_data
    for key in list(filter(_is_span_key, user_data)):
        mark, name, start, end = key
        span = new.char_span(start, end, alignment_mode="expand")
        if span is not None and (span.start_char, span.end_char) != (start, end):
            user_data.setdefault((mark, name, span.start_char, span.end_char), user_data.pop(key))
