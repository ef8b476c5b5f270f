"""From annotated Docs to shards, in each of the formats."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, cast

import srsly

from .extras import require
from .inputs import open_input
from .job import Job, Slice
from .rows import carried_names, shard_schema, to_json

if TYPE_CHECKING:
    from spacy.tokens import Doc

_ROWS_AT_ONCE = 1000


@dataclass(frozen=True)
class Annotated:
    """A document as it goes to the output.

    id (str): Its id.
    doc (Doc): The annotated Doc.
    entities (list[dict]): Its entities.
    fields (dict): What the input says of it.
    model (tuple[str, str]): Name and version of the pipeline.
    """

    id: str
    doc: "Doc"
    entities: list[dict[str, Any]]
    fields: dict[str, Any]
    model: tuple[str, str]

    def to_row(self) -> dict[str, Any]:
        """RETURNS (dict): The output's own fields."""
        row = {"id": self.id, "text": self.doc.text, "entities": self.entities}
        return {**row, "model": self.model[0], "model_version": self.model[1]}


class Writer(Protocol):
    """Writes the documents of a shard."""

    def add(self, annotated: Annotated) -> None:
        """Add a document. Raises what the format cannot hold, and then has not added it.

        annotated (Annotated): The document.
        """

    def close(self) -> None:
        """Write what has not been written yet. The stream stays open."""


def make_writer(job: Job, part: Slice, stream: BinaryIO) -> Writer:
    """Make the writer of a shard.

    job (Job): The output's format.
    part (Slice): What the shard is made of.
    stream (BinaryIO): Where it is written to.
    RETURNS (Writer): The writer.
    """
    if job.output_format == "jsonl":
        return JsonlWriter(stream)
    return DocBinWriter(stream) if job.output_format == "spacy" else ParquetWriter(stream, read_carried(job, part))


class JsonlWriter:
    """Writes a JSON object a line."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream

    def add(self, annotated: Annotated) -> None:
        """Write a line.

        annotated (Annotated): The document.
        """
        names = carried_names(annotated.fields)
        self.stream.write(
            to_json({**annotated.to_row(), **{names[name]: value for name, value in annotated.fields.items()}})
        )

    def close(self) -> None:
        """There is nothing left to write."""


class DocBinWriter:
    """Gathers Docs and writes them as spaCy's binary format, with id, fields and model in their user data."""

    def __init__(self, stream: BinaryIO) -> None:
        from spacy.tokens import DocBin

        self.stream = stream
        self.docs = DocBin(store_user_data=True)

    def add(self, annotated: Annotated) -> None:
        """Keep a Doc.

        annotated (Annotated): The document.
        """
        from spacy.tokens import DocBin

        row = annotated.to_row()
        annotated.doc.user_data.update({name: row[name] for name in ("id", "model", "model_version")})
        if annotated.fields:
            annotated.doc.user_data["fields"] = _to_storable(annotated.fields)
        # By itself first: a DocBin is left in pieces by user data that cannot be written.
        self.docs.merge(DocBin(docs=[annotated.doc], store_user_data=True))

    def close(self) -> None:
        """Write all Docs."""
        self.stream.write(self.docs.to_bytes())


def _to_storable(fields: dict[str, Any]) -> dict[str, Any]:
    try:
        srsly.msgpack_dumps(fields)
    except (TypeError, ValueError, OverflowError):  # such as dates
        return cast(dict[str, Any], json.loads(to_json(fields)))
    return fields


class ParquetWriter:
    """Writes rows of a Parquet file, a group at a time."""

    def __init__(self, stream: BinaryIO, carried: Any = None) -> None:
        """Make the writer.

        stream (BinaryIO): Where it is written to.
        carried (pyarrow.Schema | None): The columns of a Parquet input that are carried along, by their names there.
        """
        pa = require("pyarrow", "annotate", "Writing .parquet")
        self.names = None if carried is None else carried_names(carried.names)
        self.strings = {field.name for field in carried or () if field.type == pa.string()}
        if self.names is not None:
            carried = pa.schema([field.with_name(self.names[field.name]) for field in carried])
        self.schema = shard_schema(carried)
        self.rows: list[dict[str, Any]] = []
        self.writer = require("pyarrow.parquet", "annotate", "Writing .parquet").ParquetWriter(stream, self.schema)

    def add(self, annotated: Annotated) -> None:
        """Add a row.

        annotated (Annotated): The document.
        """
        row = annotated.to_row()
        if self.names is not None:
            for name, value in annotated.fields.items():
                row[self.names[name]] = _to_text(value) if name in self.strings else value
        elif annotated.fields:
            row["fields"] = to_json(annotated.fields).decode("utf8").removesuffix("\n")
        self.rows.append(row)
        if len(self.rows) >= _ROWS_AT_ONCE:
            self._write_rows()

    def close(self) -> None:
        """Write the rows that are left, and the footer."""
        self._write_rows()
        self.writer.close()

    def _write_rows(self) -> None:
        if self.rows:
            pa = require("pyarrow", "annotate", "Writing .parquet")
            self.writer.write_table(pa.Table.from_pylist(self.rows, schema=self.schema))
            self.rows = []


def read_carried(job: Job, part: Slice) -> Any:
    """Find the columns of a Parquet input that are carried along.

    job (Job): Which columns hold text and id.
    part (Slice): A part of the input.
    RETURNS (pyarrow.Schema | None): Them, with their types. None if the input is no Parquet file, or cannot be read.
    """
    if part.kind != "parquet" or part.damage is not None:
        return None
    pa = require("pyarrow", "annotate", "Reading .parquet")
    with open_input(part.path) as file:
        schema = require("pyarrow.parquet", "annotate", "Reading .parquet").read_schema(file)
    own = {job.text_field, job.id_field}
    # Values come as Python objects, of which not all extension types can be made again.
    types = {f.name: pa.string() if _has_extension(f.type) else f.type for f in schema}
    return pa.schema([pa.field(name, type_) for name, type_ in types.items() if name not in own])


def _has_extension(type_: Any) -> bool:
    pa = require("pyarrow", "annotate", "Reading .parquet")
    if isinstance(type_, pa.BaseExtensionType):
        return True
    return pa.types.is_nested(type_) and any(_has_extension(type_.field(i).type) for i in range(type_.num_fields))


def _to_text(value: Any) -> str | None:
    if isinstance(value, (dict, list)):
        return to_json(value).decode("utf8").removesuffix("\n")
    return None if value is None else str(value)
