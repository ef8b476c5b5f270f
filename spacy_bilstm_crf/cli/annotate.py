"""Command `crf annotate`: a trained pipeline on a corpus of any size."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spacy.cli._util import Arg, Opt
from wasabi.printer import Printer

if TYPE_CHECKING:  # these load slowly, and spaCy imports this module for each of its commands
    from ..annotate import Summary

# Exit codes; 2 is the command line's own, for options that it does not know.
STOPPED: Final = 1
WITH_FAILURES: Final = 3
INTERRUPTED: Final = 130


def annotate_cli(
    model: str = Arg(..., help="Name or path of the pipeline"),
    inputs: list[str] = Arg(
        ..., help="Files, folders or globs (in quotes): .txt (a text a line), .jsonl, .parquet, .spacy; or their URLs"
    ),
    output: str = Arg(..., help="Folder for shards, manifest.json and errors.jsonl; or its URL"),
    output_format: str = Opt("jsonl", "--format", help="Format of the shards: jsonl, parquet or spacy"),
    engine: str = Opt("local", "--engine", help="local (processes on this machine) or ray (Ray Data)"),
    n_process: int = Opt(1, "--n-process", "-n", help="Number of workers, each of which loads the pipeline"),
    gpu_id: int = Opt(-1, "--gpu-id", "-g", help="GPU to use, -1 for none. With Ray, 0 gives each worker a GPU"),
    ray_address: str | None = Opt(
        None, "--ray-address", help="Address of a running Ray cluster. Default: start one on this machine"
    ),
    text_field: str = Opt("text", "--text-field", help="Field or column that holds the text, in .jsonl and .parquet"),
    id_field: str | None = Opt(
        None, "--id-field", help="Field or column that holds the id, in .jsonl and .parquet. Default: file and line"
    ),
    shard_size: int = Opt(5000, "--shard-size", help="Most documents of a shard"),
    probabilities: bool = Opt(
        True, "--probabilities/--no-probabilities", help="Have ner_crf say how probable each entity is"
    ),
    exclude: str = Opt("", "--exclude", help="Names of components not to load, separated by commas"),
    code: Path | None = Opt(None, "--code", "-c", help="Python file with code that the pipeline needs"),
    retry_errors: bool = Opt(False, "--retry-errors", help="Do shards again from which documents are missing"),
    force: bool = Opt(False, "--force", "-F", help="Throw away what an earlier run has written to the output"),
) -> None:
    """Annotate text files with a trained pipeline, in shards, on all processors.

    Shards are written whole or not at all. A run that was stopped goes on when the same command is given again.
    Documents that cannot be annotated are listed in errors.jsonl and do not stop the others.

    The exit code is 0 if all documents were annotated, 3 if some could not be, 1 if the run has stopped.
    """
    from ..annotate import Job, annotate

    msg = Printer()
    names = tuple(name.strip() for name in exclude.split(",") if name.strip())
    what: dict[str, Any] = {"text_field": text_field, "id_field": id_field, "shard_size": shard_size, "exclude": names}
    what.update(output_format=output_format, probabilities=probabilities, code=None if code is None else str(code))
    how: dict[str, Any] = {"engine": engine, "n_process": n_process, "gpu_id": gpu_id, "ray_address": ray_address}
    how.update(force=force, retry_errors=retry_errors, show_progress=True)
    try:
        summary = annotate(Job(model, output, **what), inputs, **how)
    except (ValueError, ImportError, OSError) as error:
        msg.fail("The run has stopped", str(error), exits=STOPPED)
    except KeyboardInterrupt:
        msg.warn("Interrupted", "What was finished is kept. Give the same command again to go on.", exits=INTERRUPTED)
    else:
        _report(summary, output, msg)


def _report(summary: "Summary", output: str, msg: Printer) -> None:
    rate = f", {summary.n_new_docs / summary.seconds:,.0f} a second" if summary.n_new_docs and summary.seconds else ""
    rows: list[tuple[str, str]] = [
        ("Documents", f"{summary.n_docs:,}"),
        ("  of this run", f"{summary.n_new_docs:,} in {summary.seconds:,.1f} s{rate}"),
        ("Tokens", f"{summary.n_tokens:,}"),
        ("Entities", f"{summary.n_entities:,}"),
        ("Shards", f"{summary.n_shards:,}" + (f" ({summary.n_kept:,} from earlier runs)" if summary.n_kept else "")),
        ("Errors", f"{summary.n_failures:,}"),
    ]
    msg.table(rows)
    if summary.n_failures:
        noun = "document" if summary.n_failures == 1 else "documents"
        text = f"{summary.n_failures:,} {noun} could not be annotated: see {output}/errors.jsonl"
        msg.warn(text, exits=WITH_FAILURES)
    msg.good(f"Everything is in {output}")
