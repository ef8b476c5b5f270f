"""A run from beginning to end: what is there already, the engine, errors and manifest."""

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..errors import Errors
from .extras import require
from .folders import Folder, lock_folder, open_folder
from .inputs import find_inputs
from .job import ENGINES, InputFile, Job, Slice
from .local import Event, LocalEngine, Order
from .manifest import COUNTS, Manifest, begin_run, continue_or_begin, output_paths
from .progress import Progress
from .receipts import SUBFOLDERS, Counts, find_finished, read_receipt, shard_name, write_errors
from .slices import cut_file


@dataclass(frozen=True)
class Summary:
    """What is in the output after a run.

    n_docs (int): Annotated documents.
    n_tokens (int): Their tokens.
    n_entities (int): Their entities.
    n_failures (int): Documents that could not be annotated.
    n_shards (int): Shards.
    n_kept (int): Shards that were there before.
    n_new_docs (int): Documents that this run has annotated.
    seconds (float): Time of this run.
    """

    n_docs: int
    n_tokens: int
    n_entities: int
    n_failures: int
    n_shards: int
    n_kept: int
    n_new_docs: int
    seconds: float


def annotate(
    job: Job,
    inputs: Iterable[str],
    *,
    engine: str = "local",
    n_process: int = 1,
    gpu_id: int = -1,
    ray_address: str | None = None,
    force: bool = False,
    retry_errors: bool = False,
    show_progress: bool = False,
) -> Summary:
    """Annotate a corpus, or the rest of one.

    job (Job): Model, output and the options that decide what is written.
    inputs (Iterable[str]): Paths of files or folders, globs, or URLs of these.
    engine (str): "local" or "ray".
    n_process (int): Number of workers or actors.
    gpu_id (int): The GPU. -1 for none. With Ray, any other number gives each actor a GPU.
    ray_address (str | None): The Ray cluster. None to start one on this machine.
    force (bool): Remove what another run has written to the output.
    retry_errors (bool): Do those shards again from which documents are missing. Input files of such shards may have
        been repaired, and are then done again as a whole.
    show_progress (bool): Whether to show a progress bar.
    RETURNS (Summary): What is in the output now.
    RAISES (ValueError): CRF420 to CRF440: see the messages. What was finished stays, and the same call goes on there.
    RAISES (ImportError): CRF426 if an extra is missing.
    """
    _check_options(engine, n_process, gpu_id, ray_address)
    files = find_inputs(inputs, leave_out=output_paths(job.output))
    _check_extras(job, files, engine)
    planned = Manifest.plan(job, files)
    folder = open_folder(job.output)
    with lock_folder(job.output):
        manifest = continue_or_begin(folder, planned, job.output, force=force, retry_errors=retry_errors)
        run = _Run(job, files, folder, manifest, retry_errors=retry_errors)
        settings = {"n_process": n_process, "gpu_id": gpu_id}
        return run.run({"engine": engine, **settings}, ray_address, show_progress)


def _check_options(engine: str, n_process: int, gpu_id: int, ray_address: str | None) -> None:
    checks = [
        ("--engine", engine, engine in ENGINES, f"one of {', '.join(ENGINES)}"),
        ("--n-process", n_process, n_process >= 1, "at least 1"),
        ("--gpu-id", gpu_id, gpu_id < 0 or engine == "ray" or n_process == 1, "-1 (no GPU) if --n-process is not 1"),
        ("--ray-address", ray_address, ray_address is None or engine == "ray", "none, unless with --engine ray"),
    ]
    for name, value, is_right, expected in checks:
        if not is_right:
            raise ValueError(Errors.CRF435.format(name=name, value=value, expected=expected))


def _check_extras(job: Job, files: list[InputFile], engine: str) -> None:
    if engine == "ray":
        require("ray.data", "ray", "--engine ray")
    if job.output_format == "parquet" or any(source.kind == "parquet" for source in files):
        require("pyarrow.parquet", "annotate", "Reading or writing .parquet")


class _Run:
    """The state of a run, which begins with what earlier runs have left."""

    def __init__(
        self, job: Job, files: list[InputFile], folder: Folder, manifest: Manifest, *, retry_errors: bool
    ) -> None:
        self.job = job
        self.files = files
        self.folder = folder
        self.manifest = manifest
        self.with_failures: set[str] = set()
        self.n_bytes = sum(source.n_bytes for source in files)
        self.n_bytes_done = 0
        self.finished = find_finished(folder, job.output_format)
        for name in sorted(self.finished):
            counts = read_receipt(folder, name).counts()
            if retry_errors and counts["n_failures"]:
                folder.remove(shard_name(name, job.output_format))
                self.finished.remove(name)
            else:
                self.count(counts)

    def tidy(self) -> None:
        """Remove what workers that have died left, and say what there is."""
        for subfolder in ("", *SUBFOLDERS):
            self.folder.clean(subfolder)
        write_errors(self.folder, self.with_failures)
        self.manifest.write(self.folder)

    def count(self, counts: Counts) -> None:
        self.manifest.add(counts)
        self.n_bytes_done += counts["n_bytes"]
        if counts["n_failures"]:
            self.with_failures.add(counts["name"])

    def run(self, settings: dict[str, Any], ray_address: str | None, show_progress: bool) -> Summary:
        manifest, this_run = self.manifest, begin_run(**settings)
        started, seconds_before, n_docs_before = time.monotonic(), manifest.seconds, manifest.total("n_docs")
        manifest.runs.append(this_run)
        manifest.status = "running"
        self.tidy()
        try:
            with Progress(self.n_bytes, n_bytes_done=self.n_bytes_done, is_shown=show_progress) as progress:
                if manifest.n_shards == manifest.n_wanted:
                    pass  # without even reading the input
                elif settings["engine"] == "ray":
                    self.annotate_on_ray(settings, ray_address, progress)
                else:
                    self.annotate_here(settings, progress)
            manifest.status, manifest.n_wanted = "complete", manifest.n_shards
        finally:
            this_run["seconds"] = round(time.monotonic() - started, 3)
            this_run["n_docs"] = manifest.total("n_docs") - n_docs_before
            manifest.seconds = round(seconds_before + this_run["seconds"], 3)
            if manifest.status == "running":  # an exception is on its way, which must not be hidden by another
                manifest.status = "stopped"
                with suppress(OSError):
                    self.tidy()
        self.tidy()
        return Summary(
            **{name: manifest.total(name) for name in COUNTS},
            n_shards=manifest.n_shards,
            n_kept=len(self.finished),
            n_new_docs=this_run["n_docs"],
            seconds=this_run["seconds"],
        )

    def annotate_here(self, settings: dict[str, Any], progress: Progress) -> None:
        def on_event(order: Order, event: Event) -> None:
            part = order.part
            if event["event"] == "done":
                self.count(event["counts"])
                progress.add(0, part.n_bytes - _share(part, order.n_docs))
            elif event["event"] == "progress":
                n_docs = event["n_docs"]
                progress.add(n_docs, _share(part, order.n_docs) - _share(part, order.n_docs - n_docs))

        engine = LocalEngine(self.job, n_process=settings["n_process"], gpu_id=settings["gpu_id"], on_event=on_event)
        parts = (part for source in self.files for part in cut_file(source, self.job))
        engine.run(part for part in parts if part.name not in self.finished)

    def annotate_on_ray(self, settings: dict[str, Any], address: str | None, progress: Progress) -> None:
        from .ray_data import run_on_ray

        use_gpu = settings["gpu_id"] >= 0
        for counts in run_on_ray(
            self.job, self.files, self.finished, n_process=settings["n_process"], use_gpu=use_gpu, address=address
        ):
            self.count(counts)
            progress.add(counts["n_docs"] + counts["n_failures"], counts["n_bytes"])


def _share(part: Slice, n_docs: int) -> int:
    """How many bytes of a slice so many of its documents stand for."""
    return part.n_bytes * min(n_docs, part.n_rows) // max(1, part.n_rows)
