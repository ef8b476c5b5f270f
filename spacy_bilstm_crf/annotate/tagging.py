"""From records to annotated Docs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from spacy.tokens import Doc, DocBin, Span

from ..errors import Errors
from ..pipeline.extensions import PROB_ATTR, register_extensions
from ..pipeline.ner_crf import NERCRF
from .reading import Failure, Record, describe_error

if TYPE_CHECKING:
    from spacy.language import Language

_MAX_CHARACTERS = 1_000_000


def get_model_name(nlp: "Language") -> tuple[str, str]:
    """Name a pipeline as its package is named.

    nlp (Language): The pipeline.
    RETURNS (tuple[str, str]): Name and version.
    """
    return f"{nlp.meta['lang']}_{nlp.meta['name']}", nlp.meta["version"]


def want_probabilities(nlp: "Language") -> None:
    """Have entity recognizers with a CRF say how probable entities are, which they do not do unasked: it takes time.

    nlp (Language): The pipeline.
    RAISES (ValueError): CRF320 if the extension attribute `prob` is something else already.
    """
    for _, pipe in nlp.pipeline:
        if isinstance(pipe, NERCRF) and pipe.cfg["prob_attr"] is None:
            register_extensions(PROB_ATTR)
            pipe.cfg["prob_attr"] = PROB_ATTR


def get_prob_attr(nlp: "Language") -> str | None:
    """Find out where the probabilities of entities are.

    nlp (Language): The pipeline.
    RETURNS (str | None): The extension attribute of the last component that sets one. None if no component does.
    """
    settings = [getattr(pipe, "cfg", None) for _, pipe in nlp.pipeline]
    names = [cfg.get("prob_attr") for cfg in settings if isinstance(cfg, Mapping)]
    names = [name for name in names if isinstance(name, str) and Span.has_extension(name)]
    return names[-1] if names else None


def read_entities(doc: Doc, prob_attr: str | None) -> list[dict[str, Any]]:
    """Put the entities of a Doc into rows.

    doc (Doc): The Doc.
    prob_attr (str | None): The extension attribute that holds their probabilities.
    RETURNS (list[dict]): Offsets in characters and tokens, text, label, and the probability or None.
    """
    return [
        {
            "start": ent.start_char,
            "end": ent.end_char,
            "token_start": ent.start,
            "token_end": ent.end,
            "text": ent.text,
            "label": ent.label_,
            "probability": None if prob_attr is None else ent._.get(prob_attr),
        }
        for ent in doc.ents
    ]


def memory_zone(nlp: "Language") -> AbstractContextManager[Any]:
    """Open a block at whose end the words that were new in it are forgotten.

    nlp (Language): The pipeline.
    RETURNS (ContextManager): The block; one that does nothing if such a block is open already.
    """
    return nullcontext() if getattr(nlp.vocab, "in_memory_zone", False) else nlp.memory_zone()


def in_chunks(items: Iterable[Record | Failure], size: int) -> Iterator[list[Record | Failure]]:
    """Gather what is annotated at a time: not too many documents, nor too much text.

    items (Iterable[Record | Failure]): What was read.
    size (int): Most documents.
    YIELDS (list[Record | Failure]): The next of them.
    """
    chunk: list[Record | Failure] = []
    n_characters = 0
    for item in items:
        chunk.append(item)
        n_characters += len(item.text) if isinstance(item, Record) else 0
        if len(chunk) >= size or n_characters >= _MAX_CHARACTERS:
            yield chunk
            chunk, n_characters = [], 0
    if chunk:
        yield chunk


def annotate_records(nlp: "Language", items: Sequence[Record | Failure]) -> list[tuple[Record, Doc] | Failure]:
    """Annotate documents. One that the pipeline fails on does not spoil the others.

    nlp (Language): The pipeline.
    items (Sequence[Record | Failure]): What was read.
    RETURNS (list[tuple[Record, Doc] | Failure]): For each, in order, the record and its Doc, or why there is none.
    """
    results: dict[int, tuple[Record, Doc] | Failure] = {}
    records = {i: item for i, item in enumerate(items) if isinstance(item, Record)}
    _add_strings(nlp, records.values())
    made: dict[int, Doc] = {}
    for i, record in records.items():
        try:
            made[i] = _make_doc(nlp, record)
        except Exception as error:
            results[i] = Failure(record.id, record.place, describe_error(error))
    docs = _pipe(nlp, list(made.values()))
    for i, doc in zip(made, docs or (None for _ in made), strict=True):
        # after a failure the Docs are in an unknown state, so they are made anew
        results[i] = _annotate_one(nlp, records[i]) if doc is None else (records[i], doc)
    return [item if isinstance(item, Failure) else results[i] for i, item in enumerate(items)]


def _pipe(nlp: "Language", docs: list[Doc]) -> list[Doc] | None:
    try:
        annotated = list(nlp.pipe(docs))
    except Exception:
        return None
    # an error handler may have left some out
    return annotated if len(annotated) == len(docs) else None


def _annotate_one(nlp: "Language", record: Record) -> tuple[Record, Doc] | Failure:
    try:
        docs = list(nlp.pipe([_make_doc(nlp, record)]))
    except Exception as error:
        return Failure(record.id, record.place, describe_error(error))
    return (record, docs[0]) if docs else Failure(record.id, record.place, Errors.CRF438)


def _make_doc(nlp: "Language", record: Record) -> Doc:
    if record.stored is None:
        return nlp.make_doc(record.text)
    source, i = record.stored
    one = DocBin()
    one.attrs = source.attrs
    one.tokens, one.spaces, one.cats = [source.tokens[i]], [source.spaces[i]], [source.cats[i]]
    one.flags, one.span_groups, one.user_data = [source.flags[i]], [source.span_groups[i]], [source.user_data[i]]
    return next(one.get_docs(nlp.vocab))


def _add_strings(nlp: "Language", records: Iterable[Record]) -> None:
    # Stored Docs know their words by hash; what they mean is forgotten at the end of each memory zone.
    sources = {id(record.stored[0]): record.stored[0] for record in records if record.stored is not None}
    for source in sources.values():
        for string in source.strings:
            nlp.vocab.strings.add(string)
