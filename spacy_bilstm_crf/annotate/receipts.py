"""What is known of finished shards: counts, and which documents could not be annotated."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from .folders import Folder, write_file
from .job import OUTPUT_FORMATS, Slice
from .reading import Failure
from .rows import to_json

SHARDS = "shards"
RECEIPTS = "_receipts"
ERRORS = "errors.jsonl"
ATTEMPTS = "_attempts"
# Folders that are for a run alone to write to.
SUBFOLDERS = (SHARDS, RECEIPTS, ATTEMPTS)

Counts = dict[str, Any]


@dataclass
class Receipt:
    """What became of a slice.

    name (str): The shard's name, without ending.
    file (int): Position of the file in the input.
    n_bytes (int): The slice's share of the file.
    n_docs (int): Documents in the shard.
    n_tokens (int): Their tokens.
    n_entities (int): Their entities.
    failures (list[Failure]): Documents that are not in it.
    """

    name: str
    file: int
    n_bytes: int
    n_docs: int = 0
    n_tokens: int = 0
    n_entities: int = 0
    failures: list[Failure] = field(default_factory=list)

    @classmethod
    def of(cls, part: Slice) -> "Receipt":
        """Begin a receipt.

        part (Slice): The slice.
        RETURNS (Receipt): The receipt, with nothing done.
        """
        return cls(part.name, part.file, part.n_bytes)

    def counts(self) -> Counts:
        """RETURNS (Counts): Everything but the failures, of which there may be many: their documents' number."""
        counts = {name: value for name, value in self.__dict__.items() if name != "failures"}
        return {**counts, "n_failures": sum(failure.n_docs for failure in self.failures)}


def shard_name(name: str, output_format: str) -> str:
    """Name the file of a shard.

    name (str): The shard's name.
    output_format (str): The output's format.
    RETURNS (str): The file's name in the output folder.
    """
    return f"{SHARDS}/{name}.{output_format}"


def write_receipt(folder: Folder, receipt: Receipt) -> None:
    """Store a receipt. It counts from when the shard has its name.

    folder (Folder): The output folder.
    receipt (Receipt): The receipt.
    """
    write_file(folder, f"{RECEIPTS}/{receipt.name}.json", to_json(asdict(receipt)))


def read_receipt(folder: Folder, name: str) -> Receipt:
    """Read a receipt.

    folder (Folder): The output folder.
    name (str): The shard's name.
    RETURNS (Receipt): The receipt.
    """
    data = json.loads(folder.read(f"{RECEIPTS}/{name}.json"))
    return Receipt(**{**data, "failures": [Failure(**failure) for failure in data["failures"]]})


def find_finished(folder: Folder, output_format: str) -> set[str]:
    """Find the shards that are there.

    folder (Folder): The output folder.
    output_format (str): The output's format.
    RETURNS (set[str]): Their names: those that have both a file and a receipt.
    """
    shards = {name.rpartition(".")[0] for name in folder.names(SHARDS) if name.endswith(f".{output_format}")}
    return shards & {name.rpartition(".")[0] for name in folder.names(RECEIPTS)}


def count_attempt(folder: Folder, name: str) -> int:
    """Count that a shard is begun. What kills its process leaves the count behind.

    folder (Folder): The output folder.
    name (str): The shard's name.
    RETURNS (int): How often it was begun and not finished, this time included.
    """
    path = f"{ATTEMPTS}/{name}"
    try:
        n_attempts = int(folder.read(path)) + 1
    except FileNotFoundError:
        n_attempts = 1
    write_file(folder, path, str(n_attempts).encode())
    return n_attempts


def forget_attempts(folder: Folder, names: Iterable[str]) -> None:
    """Forget how often shards were begun.

    folder (Folder): The output folder.
    names (Iterable[str]): Names of the shards.
    """
    for name in names:
        folder.remove(f"{ATTEMPTS}/{name}")


def write_errors(folder: Folder, names: Iterable[str]) -> None:
    """Write the file of documents that could not be annotated, in the order of the input.

    folder (Folder): The output folder.
    names (Iterable[str]): The shards from which some are missing.
    """
    pending = folder.create(ERRORS)
    try:
        for name in sorted(names):
            for failure in read_receipt(folder, name).failures:
                pending.stream.write(to_json(failure.to_dict()))
        pending.commit()
    finally:
        pending.discard()


def remove_output(folder: Folder) -> None:
    """Remove what a run has written. Other files stay.

    folder (Folder): The output folder.
    """
    endings = tuple(f".{output_format}" for output_format in OUTPUT_FORMATS)
    for subfolder, suffixes in ((SHARDS, endings), (RECEIPTS, (".json",)), (ATTEMPTS, ("",))):
        for name in folder.names(subfolder):
            if name.startswith("part-") and name.endswith(suffixes):
                folder.remove(f"{subfolder}/{name}")
    folder.remove(ERRORS)
