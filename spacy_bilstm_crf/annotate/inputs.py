"""Which files are read, on disk or by URL."""

import fnmatch
import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from ..errors import Errors
from .extras import require
from .job import InputFile
from .paths import is_url, without_query

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

KINDS = {".txt": "text", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".spacy": "spacy"}
_MAGIC = frozenset("*?[")


def find_inputs(patterns: Iterable[str], *, leave_out: Sequence[str] = ()) -> list[InputFile]:
    """Find the files that are meant.

    patterns (Iterable[str]): Paths of files or folders, globs, or URLs of these.
    leave_out (Sequence[str]): Files and folders that are no input, even if they lie inside of one: the output.
    RETURNS (list[InputFile]): The files, in the order given, those of a folder or glob by name; each once, by
        whatever path it is found again.
    RAISES (ValueError): CRF420 if there is no such file, CRF421 if it is of no known kind.
    """
    found: dict[str, InputFile] = {}
    written = [_resolve(path) for path in leave_out]
    for pattern in patterns:
        is_found = False
        for path, n_bytes, is_named in _expand(pattern):
            real = _resolve(path)
            if any(real == own or real.startswith(f"{own}/") for own in written):
                continue
            kind = KINDS.get(os.path.splitext(without_query(path))[1].lower())
            if kind is None and is_named:
                raise ValueError(Errors.CRF421.format(path=path, suffixes=" ".join(KINDS)))
            is_found = is_found or kind is not None
            # a link to another file of the input is a file of its own, a detour is not
            key = path if is_url(path) else os.path.abspath(path)
            if kind is not None and key not in found:
                found[key] = InputFile(len(found), path, kind, n_bytes)
        if not is_found:
            raise ValueError(Errors.CRF420.format(pattern=pattern, suffixes=" ".join(KINDS)))
    return list(found.values())


@lru_cache(maxsize=64)
def get_file_system(url: str) -> "tuple[FileSystem, str]":
    """Find the file system of a URL.

    url (str): The URL, such as "s3://bucket/folder".
    RETURNS (tuple): The file system, and the path on it.
    RAISES (ImportError): CRF426 if pyarrow is not installed.
    """
    return require("pyarrow.fs", "annotate", f"Reading or writing {url}").FileSystem.from_uri(url)


def open_input(path: str) -> BinaryIO:
    """Open an input file for reading bytes at any position.

    path (str): Its path or URL.
    RETURNS (BinaryIO): The open file.
    """
    if not is_url(path):
        return open(path, "rb")
    file_system, path = get_file_system(path)
    return cast(BinaryIO, file_system.open_input_file(path))


def _expand(pattern: str) -> Iterator[tuple[str, int, bool]]:
    """Yield path, size, and whether the file itself was asked for rather than a folder that it is in."""
    if is_url(pattern):
        yield from _expand_url(pattern)
        return
    if os.path.isfile(pattern):
        yield Path(pattern).as_posix(), os.path.getsize(pattern), True
        return
    is_folder = os.path.isdir(pattern)
    matches = Path(pattern).rglob("*") if is_folder else map(Path, glob.iglob(pattern, recursive=True))
    for path in sorted(matches):
        is_meant = not is_folder or not _is_hidden(path.relative_to(pattern).as_posix())
        if path.is_file() and is_meant:
            yield path.as_posix(), path.stat().st_size, not is_folder


def _expand_url(pattern: str) -> Iterator[tuple[str, int, bool]]:
    fs = require("pyarrow.fs", "annotate", f"Reading {pattern}")
    # what is behind the question mark says how to reach the store
    pattern, mark, query = pattern.partition("?")
    magic = next((i for i, character in enumerate(pattern) if character in _MAGIC), None)
    base = pattern if magic is None else pattern[:magic].rpartition("/")[0]
    file_system, path = get_file_system(f"{base}{mark}{query}")
    info: Any = file_system.get_file_info(path)
    if info.type == fs.FileType.File:
        yield f"{pattern}{mark}{query}", info.size, True
        return
    selector = fs.FileSelector(path, recursive=True, allow_not_found=True)
    for entry in sorted(file_system.get_file_info(selector), key=lambda entry: entry.path):
        name = entry.path[len(path) :].lstrip("/")
        url = f"{base.rstrip('/')}/{name}"
        is_meant = (magic is None or _matches(url, pattern)) and ("/." in pattern or not _is_hidden(name))
        if entry.type == fs.FileType.File and is_meant:
            yield f"{url}{mark}{query}", entry.size, magic is not None


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))


def _matches(url: str, pattern: str) -> bool:
    # as in globs of paths, only ** reaches into other folders
    return fnmatch.fnmatchcase(url, pattern) and ("**" in pattern or url.count("/") == pattern.count("/"))


def _resolve(path: str) -> str:
    return without_query(path) if is_url(path) else Path(path).resolve().as_posix()
