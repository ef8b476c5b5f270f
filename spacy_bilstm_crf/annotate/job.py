"""What is to be done: the options of a run, its input files and the slices that they are cut into."""

from dataclasses import asdict, dataclass, fields
from typing import Any

from ..errors import Errors
from .paths import without_query

OUTPUT_FORMATS = ("jsonl", "parquet", "spacy")
ENGINES = ("local", "ray")


@dataclass(frozen=True)
class Job:
    """The options of a run that decide what is written.

    model (str): Name or path of the pipeline.
    output (str): Path or URL of the output folder.
    output_format (str): "jsonl", "parquet" or "spacy".
    text_field (str): Where the text is in JSONL and Parquet.
    id_field (str | None): Where the id is in JSONL and Parquet. None for file and line.
    shard_size (int): Most documents of a shard.
    shard_bytes (int): Bytes of input after which a shard ends, even if it has fewer documents.
    exclude (tuple[str, ...]): Components of the pipeline that are not loaded.
    code (str | None): Path of a Python file to import before the pipeline is loaded.
    probabilities (bool): Whether `ner_crf` says how probable entities are.
    """

    model: str
    output: str
    output_format: str = "jsonl"
    text_field: str = "text"
    id_field: str | None = None
    shard_size: int = 5000
    shard_bytes: int = 8 * 1024 * 1024
    exclude: tuple[str, ...] = ()
    code: str | None = None
    probabilities: bool = True

    def __post_init__(self) -> None:
        if self.output_format not in OUTPUT_FORMATS:
            expected = f"one of {', '.join(OUTPUT_FORMATS)}"
            raise ValueError(Errors.CRF435.format(name="--format", value=self.output_format, expected=expected))
        for name in ("shard_size", "shard_bytes"):
            if getattr(self, name) < 1:
                option = f"--{name.replace('_', '-')}"
                raise ValueError(Errors.CRF435.format(name=option, value=getattr(self, name), expected="at least 1"))

    def to_dict(self) -> dict[str, Any]:
        """RETURNS (dict): The options in the form of JSON."""
        return {**asdict(self), "exclude": list(self.exclude)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Job":
        """Make a job of what `to_dict` returned.

        data (dict): The options.
        RETURNS (Job): The job.
        """
        names = {field.name for field in fields(cls)}
        return cls(**{**{k: v for k, v in data.items() if k in names}, "exclude": tuple(data.get("exclude", ()))})


@dataclass(frozen=True)
class InputFile:
    """A file of the input.

    index (int): Its position in the input.
    path (str): Its path or URL.
    kind (str): "text", "jsonl", "parquet" or "spacy".
    n_bytes (int): Its size.
    """

    index: int
    path: str
    kind: str
    n_bytes: int


@dataclass(frozen=True)
class Slice:
    """A run of lines or rows of a file, which becomes a shard.

    file (int): Position of the file in the input.
    number (int): Position in the file.
    path (str): Path or URL of the file.
    kind (str): "text", "jsonl", "parquet" or "spacy".
    start (int): Where it starts: a byte for text and JSONL, a row for Parquet, a document for .spacy.
    stop (int): Where it ends.
    first_row (int): Number of its first line or row in the file, from 1.
    n_rows (int): Number of its lines or rows.
    n_bytes (int): Its share of the file's size.
    damage (str | None): Why the file could not be cut. Such a slice has no rows.
    """

    file: int
    number: int
    path: str
    kind: str
    start: int = 0
    stop: int = 0
    first_row: int = 1
    n_rows: int = 0
    n_bytes: int = 0
    damage: str | None = None

    @property
    def name(self) -> str:
        """RETURNS (str): The name of its shard, without ending. Names sort in the order of the input."""
        return f"part-{self.file:05d}-{self.number:05d}"

    @staticmethod
    def read_name(name: str) -> tuple[int, int]:
        """Read the name of a shard.

        name (str): The name.
        RETURNS (tuple[int, int]): Position of the file in the input, position in the file.
        """
        _, file, number = name.split("-")
        return int(file), int(number)

    def place(self, row: int) -> str:
        """Name a line or row.

        row (int): Its number in the file, from 1.
        RETURNS (str): File and number.
        """
        # a file's name may hold bytes that no output can
        path = without_query(self.path)
        return f"{path if path.isascii() else path.encode('utf8', 'replace').decode('utf8')}:{row}"
