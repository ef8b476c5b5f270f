"""From slices to records: a text or Doc each, or the reason why there is none."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, BinaryIO

from ..errors import Errors
from .extras import require
from .inputs import open_input
from .job import Job, Slice

if TYPE_CHECKING:
    from spacy.tokens import DocBin

_CHUNK = 1 << 20
_BOM = b"\xef\xbb\xbf"
_ROWS_AT_ONCE = 256
# UTF-8 takes at most 4 bytes for a character; JSON has escapes, and other fields beside the text.
_TEXT_BYTES_PER_CHARACTER = 4
_JSON_BYTES_PER_CHARACTER = 16
_REASON_LENGTH = 500


@dataclass
class Record:
    """A document to be annotated.

    id (str): The id that goes to the output.
    place (str): File and line or row.
    text (str): The text; "" if it is a stored Doc.
    fields (dict): What else the input says of it.
    stored (tuple | None): Where the Doc lies that it is, if it comes with its tokens.
    """

    id: str
    place: str
    text: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    stored: "tuple[DocBin, int] | None" = None


@dataclass
class Failure:
    """A document that cannot be annotated, or a part of a file that cannot be read.

    id (str): Its id, or file and line.
    place (str): File and line or row.
    reason (str): Why.
    n_docs (int): How many documents it stands for, as far as known.
    """

    id: str
    place: str
    reason: str
    n_docs: int = 1

    def to_dict(self) -> dict[str, Any]:
        """RETURNS (dict): It in the form of JSON. The number of documents stands there if it is not one."""
        data = {"id": self.id, "place": self.place, "reason": self.reason}
        return data if self.n_docs == 1 else {**data, "n_docs": self.n_docs}


def describe_error(error: BaseException) -> str:
    """Put an exception into a line.

    error (BaseException): The exception.
    RETURNS (str): Its type and message, cut if it is long.
    """
    return " ".join(f"{type(error).__name__}: {error}".split())[:_REASON_LENGTH]


def read_slice(part: Slice, job: Job, max_length: int) -> Iterator[Record | Failure]:
    """Read the documents of a slice, a little at a time; of a .spacy file all are loaded.

    part (Slice): The slice.
    job (Job): Which fields hold what.
    max_length (int): Most characters of a text that the pipeline accepts. Longer lines are not kept.
    YIELDS (Record | Failure): What is there, in order. If the file cannot be read any further, a failure is the last.
    RAISES (ImportError): CRF426 if a library is missing.
    """
    if part.damage is not None:
        yield Failure(part.path, part.path, part.damage)
        return
    n_read = 0
    try:
        for item in _read(part, job, max_length):
            yield item
            n_read += 1
    except ImportError:
        raise
    except Exception as error:
        own = str(error).startswith("[CRF")
        reason = str(error) if own else Errors.CRF431.format(path=part.path, error=describe_error(error))
        place = f"{part.place(part.first_row + n_read)}-{part.first_row + part.n_rows - 1}"
        yield Failure(place, place, reason, max(1, part.n_rows - n_read))


def read_lines(file: BinaryIO, n_bytes: int, max_bytes: int) -> Iterator[bytes | int]:
    """Read lines, without holding more than a chunk and a line.

    file (BinaryIO): The file.
    n_bytes (int): How far to read.
    max_bytes (int): The longest line that is kept.
    YIELDS (bytes | int): Each line without its end, or the length of one that is too long.
    """
    parts: list[bytes] = []
    length = 0
    while n_bytes > 0 and (chunk := file.read(min(_CHUNK, n_bytes))):
        n_bytes -= len(chunk)
        first, *others = chunk.split(b"\n")
        for i, piece in enumerate((first, *others)):
            if i:
                yield _join(parts, length, max_bytes)
                parts, length = [], 0
            length += len(piece)
            if length <= max_bytes and piece:
                parts.append(piece)
            elif length > max_bytes:
                parts.clear()
    if length:
        yield _join(parts, length, max_bytes)


def _join(parts: list[bytes], length: int, max_bytes: int) -> bytes | int:
    return b"".join(parts).removesuffix(b"\r") if length <= max_bytes else length


def _read(part: Slice, job: Job, max_length: int) -> Iterator[Record | Failure]:
    if part.kind in ("text", "jsonl"):
        yield from _read_text(part, job, max_length)
    elif part.kind == "parquet":
        yield from _read_parquet(part, job)
    else:
        docs = load_docs(part.path)
        for i in range(part.start, part.stop):
            place = part.place(i + 1)
            yield Record(place, place, stored=(docs, i))


def _read_text(part: Slice, job: Job, max_length: int) -> Iterator[Record | Failure]:
    is_json = part.kind == "jsonl"
    max_bytes = max_length * (_JSON_BYTES_PER_CHARACTER if is_json else _TEXT_BYTES_PER_CHARACTER)
    with open_input(part.path) as file:
        file.seek(part.start)
        for i, line in enumerate(read_lines(file, part.stop - part.start, max_bytes)):
            place = part.place(part.first_row + i)
            if isinstance(line, int):
                yield Failure(place, place, Errors.CRF430.format(n_bytes=line, max_bytes=max_bytes))
                continue
            if part.start == 0 and i == 0:
                line = line.removeprefix(_BOM)
            try:
                text = line.decode("utf8")
            except UnicodeDecodeError as error:
                yield Failure(place, place, Errors.CRF429.format(error=error))
                continue
            if not is_json:
                yield Record(place, place, text)
            elif text.strip():
                yield _read_json(text, place, job)


def _read_json(line: str, place: str, job: Job) -> Record | Failure:
    constants: list[str] = []
    try:
        value = json.loads(line, parse_constant=constants.append)
    except (ValueError, RecursionError) as error:
        return Failure(place, place, Errors.CRF427.format(error=describe_error(error)))
    if constants:  # Python reads NaN and Infinity, but other readers of the output would not
        return Failure(place, place, Errors.CRF427.format(error=constants[0]))
    if not isinstance(value, dict):
        return Failure(place, place, Errors.CRF427.format(error=f"a {type(value).__name__}"))
    return make_record(value, place, job)


def make_record(values: dict[str, Any], place: str, job: Job) -> Record | Failure:
    """Take the text and the id out of the fields of a document.

    values (dict): All its fields.
    place (str): File and line or row.
    job (Job): Which fields hold what.
    RETURNS (Record | Failure): The document, or why it is none.
    """
    id_ = values.get(job.id_field) if job.id_field is not None else place
    has_id = isinstance(id_, (str, int)) and not isinstance(id_, bool) and _is_storable(str(id_))
    text = values.get(job.text_field)
    for name, value, is_right in ((job.id_field, id_, has_id), (job.text_field, text, isinstance(text, str))):
        if not is_right:
            found = f"is {type(value).__name__}" if name in values else "is missing"
            reason = Errors.CRF428.format(name=name, found=found, names=", ".join(map(str, values))[:200])
            return Failure(str(id_) if has_id else place, place, reason)
    others = {name: value for name, value in values.items() if name not in (job.text_field, job.id_field)}
    return Record(str(id_), place, str(text), others)


def _is_storable(text: str) -> bool:
    try:
        return bool(text.encode("utf8"))
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can escape
        return False


def _read_parquet(part: Slice, job: Job) -> Iterator[Record | Failure]:
    parquet = require("pyarrow.parquet", "annotate", "Reading .parquet")
    with open_input(part.path) as source:
        file = parquet.ParquetFile(source)
        names = file.schema_arrow.names
        for column in (job.text_field, job.id_field):
            if column is not None and column not in names:
                raise ValueError(Errors.CRF436.format(column=column, columns=", ".join(names)))
        row = part.start
        for batch in _read_rows(file, part.start, part.stop):
            for values in _to_python(batch):
                row += 1
                place = part.place(row)
                if isinstance(values, UnicodeDecodeError):
                    yield Failure(place, place, Errors.CRF429.format(error=values))
                elif isinstance(values, Exception):
                    yield Failure(place, place, Errors.CRF441.format(error=describe_error(values)))
                else:
                    yield make_record(values, place, job)


def _read_rows(file: Any, start: int, stop: int) -> Iterator[Any]:
    """Yield batches of the rows from start to stop, of those row groups that hold them."""
    ends: list[int] = []
    for i in range(file.metadata.num_row_groups):
        ends.append(file.metadata.row_group(i).num_rows + (ends[-1] if ends else 0))
    groups = [i for i, end in enumerate(ends) if end > start and (ends[i - 1] if i else 0) < stop]
    row = ends[groups[0] - 1] if groups and groups[0] else 0
    for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, row_groups=groups, use_threads=False):
        first, last = max(start - row, 0), min(stop - row, batch.num_rows)
        if last > first:
            yield batch.slice(first, last - first)
        row += batch.num_rows
        if row >= stop:
            return


def _to_python(batch: Any) -> Iterator[dict[str, Any] | Exception]:
    try:
        rows: list[dict[str, Any]] | None = batch.to_pylist()
    except (ValueError, OverflowError):  # not UTF-8, a date after the year 9999, parts of a microsecond without pandas
        rows = None
    if rows is not None:
        yield from rows
        return
    for i in range(batch.num_rows):
        try:
            yield batch.slice(i, 1).to_pylist()[0]
        except (ValueError, OverflowError) as error:
            yield error


@lru_cache(maxsize=1)
def load_docs(path: str) -> "DocBin":
    """Load a .spacy file. The last one is kept: its slices follow one another.

    path (str): Its path or URL.
    RETURNS (DocBin): Its documents.
    """
    from spacy.tokens import DocBin

    with open_input(path) as file:
        return DocBin().from_bytes(file.read())
