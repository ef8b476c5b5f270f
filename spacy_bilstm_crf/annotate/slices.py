"""How files are cut into slices, the same way whoever asks."""

from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

import numpy

from ..errors import Errors
from .extras import require
from .inputs import open_input
from .job import InputFile, Job, Slice

_CHUNK = 1 << 20
_NEWLINE = 10


def cut_file(source: InputFile, job: Job) -> Iterator[Slice]:
    """Cut a file into slices. Reads text once through and holds little of it; a .spacy file is loaded.

    source (InputFile): The file.
    job (Job): How large a shard may be.
    YIELDS (Slice): The slices in order. If the file cannot be read, the last one says why and has no rows.
    """
    n_found, next_row, n_bytes = 0, 1, 0
    try:
        for number, (start, stop, n_rows, size) in enumerate(_cut(source, job)):
            yield Slice(
                source.index, number, source.path, source.kind, start, stop, next_row, n_rows, min(size, source.n_bytes)
            )
            n_found, next_row, n_bytes = number + 1, next_row + n_rows, n_bytes + size
    except ImportError:
        raise
    except Exception as error:
        rest = Slice(source.index, n_found, source.path, source.kind, first_row=next_row)
        reason = Errors.CRF431.format(path=source.path, error=f"{type(error).__name__}: {error}"[:500])
        yield replace(rest, damage=reason, n_bytes=max(0, source.n_bytes - n_bytes))


def cut_lines(file: BinaryIO, max_lines: int, max_bytes: int) -> Iterator[tuple[int, int, int]]:
    """Find runs of whole lines.

    file (BinaryIO): The file, at its start.
    max_lines (int): Most lines of a run.
    max_bytes (int): A run ends with the line that reaches so many bytes.
    YIELDS (tuple[int, int, int]): First byte, byte after the last, number of lines.
    """
    position = start = n_lines = 0
    last = b"\n"
    while chunk := file.read(_CHUNK):
        ends = numpy.flatnonzero(numpy.frombuffer(chunk, dtype=numpy.uint8) == _NEWLINE) + 1 + position
        done = 0
        while done < len(ends):
            by_bytes = int(numpy.searchsorted(ends, start + max_bytes))
            cut = min(done + max_lines - n_lines - 1, max(by_bytes, done))
            if cut >= len(ends):
                break
            stop = int(ends[cut])
            yield start, stop, n_lines + cut - done + 1
            start, n_lines, done = stop, 0, cut + 1
        n_lines += len(ends) - done
        position += len(chunk)
        last = chunk[-1:]
    if position > start:
        yield start, position, n_lines + (last != b"\n")


def _cut(source: InputFile, job: Job) -> Iterator[tuple[int, int, int, int]]:
    """Yield start, stop, number of rows and share of the file's size."""
    with open_input(source.path) as file:
        if source.kind in ("text", "jsonl"):
            for start, stop, n_lines in cut_lines(file, job.shard_size, job.shard_bytes):
                yield start, stop, n_lines, stop - start
            return
        if not source.n_bytes:
            return
        counts = _count_parquet(file) if source.kind == "parquet" else _count_docs(file, source.path)
    n_rows, n_text_bytes = counts
    # Rows differ in size; that a shard is a little larger or smaller than was asked for does no harm.
    size = max(1, min(job.shard_size, n_rows * job.shard_bytes // max(1, n_text_bytes)))
    for start in range(0, n_rows, size):
        stop = min(start + size, n_rows)
        share = source.n_bytes * stop // n_rows - source.n_bytes * start // n_rows
        yield start, stop, stop - start, share


def _count_parquet(file: BinaryIO) -> tuple[int, int]:
    metadata = require("pyarrow.parquet", "annotate", "Reading .parquet").ParquetFile(file).metadata
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    return metadata.num_rows, sum(group.total_byte_size for group in groups)


def _count_docs(file: BinaryIO, path: str) -> tuple[int, int]:
    from spacy.tokens import DocBin

    docs = DocBin().from_bytes(file.read())
    n_tokens = sum(len(tokens) for tokens in docs.tokens)
    return len(docs), n_tokens * 8
