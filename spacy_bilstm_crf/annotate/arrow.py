"""The pipeline as a function on Arrow tables, for jobs of Ray, Spark and others."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import Errors
from .extras import require
from .reading import Failure, Record
from .rows import entity_type
from .tagging import (
    annotate_records,
    get_model_name,
    get_prob_attr,
    in_chunks,
    memory_zone,
    read_entities,
    want_probabilities,
)

if TYPE_CHECKING:
    import pyarrow
    from spacy.language import Language

Batch = TypeVar("Batch", "pyarrow.RecordBatch", "pyarrow.Table")
_ADDED = ("entities", "model", "model_version", "error")


def annotate_batch(nlp: "Language", batch: Batch, *, text_column: str = "text", probabilities: bool = True) -> Batch:
    """Annotate a column of texts.

    nlp (Language): The pipeline.
    batch (pyarrow.RecordBatch | pyarrow.Table): The texts, with any other columns.
    text_column (str): The name of their column.
    probabilities (bool): Have `ner_crf` say how probable entities are. Sets `prob_attr` of the component if it is None.
    RETURNS (pyarrow.RecordBatch | pyarrow.Table): The same rows and columns, and four more: "entities", a list
        of structs with "start", "end" (characters), "token_start", "token_end", "text", "label" and "probability";
        "model"; "model_version"; and "error", null unless the text could not be annotated, and then the entities are.
    RAISES (ValueError): CRF436 if there is no such column, CRF437 if one of the new names is taken.
    RAISES (ImportError): CRF426 if pyarrow is not installed.
    """
    pa = require("pyarrow", "annotate", "annotate_batch")
    output_schema(batch.schema, text_column=text_column)
    entities: list[list[dict[str, Any]] | None] = []
    errors: list[str | None] = []
    if probabilities:
        want_probabilities(nlp)
    prob_attr = get_prob_attr(nlp)
    items = (_to_record(i, text, text_column) for i, text in enumerate(_read_texts(batch.column(text_column))))
    for chunk in in_chunks(items, nlp.batch_size):
        with memory_zone(nlp):
            for result in annotate_records(nlp, chunk):
                entities.append(None if isinstance(result, Failure) else read_entities(result[1], prob_attr))
                errors.append(result.reason if isinstance(result, Failure) else None)
    model, version = get_model_name(nlp)
    n_rows = batch.num_rows
    new = [pa.array(entities, entity_type())]
    new += [pa.array(values, pa.string()) for values in ([model] * n_rows, [version] * n_rows, errors)]
    for name, column in zip(_ADDED, new, strict=True):
        batch = batch.append_column(name, column)
    return batch


def output_schema(schema: "pyarrow.Schema", *, text_column: str = "text") -> "pyarrow.Schema":
    """Tell what `annotate_batch` returns.

    schema (pyarrow.Schema): The columns of its input.
    text_column (str): The name of the column of texts.
    RETURNS (pyarrow.Schema): The columns of its output.
    RAISES (ValueError): CRF436 if there is no such column, CRF437 if one of the new names is taken.
    """
    pa = require("pyarrow", "annotate", "annotate_batch")
    if text_column not in schema.names:
        raise ValueError(Errors.CRF436.format(column=text_column, columns=", ".join(schema.names)))
    taken = [name for name in _ADDED if name in schema.names]
    if taken:
        raise ValueError(Errors.CRF437.format(names=", ".join(taken)))
    types = (entity_type(), pa.string(), pa.string(), pa.string())
    for name, type_ in zip(_ADDED, types, strict=True):
        schema = schema.append(pa.field(name, type_))
    return schema


def _read_texts(column: Any) -> Iterator[Any]:
    try:
        yield from column.to_pylist()
    except UnicodeDecodeError:
        for value in column:
            try:
                yield value.as_py()
            except UnicodeDecodeError as error:
                yield error


def _to_record(row: int, text: Any, column: str) -> Record | Failure:
    if isinstance(text, str):
        return Record(str(row), str(row), text)
    if isinstance(text, UnicodeDecodeError):
        return Failure(str(row), str(row), Errors.CRF429.format(error=text))
    found = f"is {type(text).__name__}"
    return Failure(str(row), str(row), Errors.CRF428.format(name=column, found=found, names=column))
