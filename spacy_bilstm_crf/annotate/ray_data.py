"""The Ray engine: the same slices as rows of a Ray Dataset, one pipeline per actor."""

import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..errors import Errors
from .extras import require
from .folders import open_folder
from .job import InputFile, Job, Slice
from .reading import describe_error
from .receipts import ATTEMPTS, Counts, count_attempt, forget_attempts
from .slices import cut_file

if TYPE_CHECKING:
    import pyarrow
    import ray.data

# Ray Data gives a slice that kills its actor to the next one, for ever.
_MAX_ATTEMPTS = 3


class SliceAnnotator:
    """The callable class of the actors: makes the shards of slices."""

    def __init__(self, job: dict[str, Any], gpu_id: int, folder: str) -> None:
        """Load the pipeline.

        job (dict): The options.
        gpu_id (int): 0 on a GPU actor, which sees its own GPU only. -1 for none.
        folder (str): What relative paths are relative to.
        """
        from .shards import Annotator

        _enter(folder)
        self.annotator = Annotator.load(Job.from_dict(job), gpu_id=gpu_id)

    def __call__(self, batch: "pyarrow.Table") -> "pyarrow.Table":
        """Annotate slices.

        batch (pyarrow.Table): A slice a row, in the column "slice", as JSON.
        RETURNS (pyarrow.Table): The counts of each, in the column "counts", as JSON.
        """
        parts = [Slice(**json.loads(text)) for text in batch.column("slice").to_pylist()]
        counts = [json.dumps(self._annotate(part)) for part in parts]
        return require("pyarrow", "ray", "The Ray engine").table({"counts": counts})

    def _annotate(self, part: Slice) -> Counts:
        folder = self.annotator.folder
        n_attempts = count_attempt(folder, part.name)
        if n_attempts > _MAX_ATTEMPTS:
            raise ValueError(Errors.CRF443.format(part=part.name, n_attempts=_MAX_ATTEMPTS))
        counts = self.annotator.annotate(part).counts()
        forget_attempts(folder, [part.name])
        return counts


def run_on_ray(
    job: Job, inputs: Sequence[InputFile], finished: set[str], *, n_process: int, use_gpu: bool, address: str | None
) -> Iterator[Counts]:
    """Annotate the input with Ray Data.

    job (Job): The options.
    inputs (Sequence[InputFile]): The input files.
    finished (set[str]): Names of shards that are there already.
    n_process (int): Number of actors.
    use_gpu (bool): Whether each actor gets a GPU.
    address (str | None): The cluster. None to start one on this machine that ends with this process.
    YIELDS (Counts): The counts of each finished shard.
    RAISES (ValueError): CRF439 if Ray stops.
    """
    ray = require("ray", "ray", "The Ray engine")
    require("ray.data", "ray", "The Ray engine")
    folder = open_folder(job.output)
    forget_attempts(folder, folder.names(ATTEMPTS))
    with _cluster(address, n_process):
        try:
            results = make_dataset(job, inputs, finished, n_process=n_process, use_gpu=use_gpu)
            for row in results.iter_rows():
                yield json.loads(row["counts"])
        except ray.exceptions.RayError as error:
            raise ValueError(Errors.CRF439.format(error=_find_cause(error))) from error


def make_dataset(
    job: Job, inputs: Sequence[InputFile], finished: set[str], *, n_process: int, use_gpu: bool
) -> "ray.data.Dataset":
    """Describe the work to Ray Data: cut files, spread the slices, annotate them.

    job (Job): The options.
    inputs (Sequence[InputFile]): The input files.
    finished (set[str]): Names of shards that are there already.
    n_process (int): Number of actors.
    use_gpu (bool): Whether each actor gets a GPU.
    RETURNS (Dataset): A row a slice, with the counts of its receipt. Nothing is done before it is read.
    """
    data = require("ray.data", "ray", "The Ray engine")

    folder = os.getcwd()

    def cut(row: dict[str, Any]) -> list[dict[str, str]]:
        _enter(folder)
        source, done = InputFile(**json.loads(row["source"])), set(row["done"])
        return [{"slice": json.dumps(asdict(part))} for part in cut_file(source, job) if part.number not in done]

    done: dict[int, list[int]] = {source.index: [] for source in inputs}
    for name in sorted(finished):
        file, number = Slice.read_name(name)
        done[file].append(number)
    rows = [{"source": json.dumps(asdict(source)), "done": done[source.index]} for source in inputs]
    # a block a file, then a block a slice: blocks are what goes to different actors
    slices = data.from_items(rows, override_num_blocks=max(1, len(rows))).flat_map(cut)
    slices = slices.repartition(target_num_rows_per_block=1)
    return slices.map_batches(
        SliceAnnotator,
        fn_constructor_kwargs={"job": job.to_dict(), "gpu_id": 0 if use_gpu else -1, "folder": folder},
        batch_format="pyarrow",
        batch_size=1,
        compute=data.ActorPoolStrategy(size=n_process),
        num_cpus=1,
        num_gpus=1 if use_gpu else 0,
    )


@contextmanager
def _cluster(address: str | None, n_process: int) -> Iterator[None]:
    ray = require("ray", "ray", "The Ray engine")
    context = require("ray.data", "ray", "The Ray engine").DataContext.get_current()
    shown, context.enable_progress_bars = context.enable_progress_bars, False
    logger = logging.getLogger("ray.data")
    level = logger.level
    logger.setLevel(logging.WARNING)  # our own bar shows the same, in documents
    is_ours = not ray.is_initialized()
    try:
        if is_ours:
            _start(ray, address, n_process)
        yield
    finally:
        context.enable_progress_bars = shown
        logger.setLevel(level)
        if is_ours:
            ray.shutdown()


def _start(ray: Any, address: str | None, n_process: int) -> None:
    # One processor more than the actors take: cutting files needs one too.
    own = {"num_cpus": n_process + 1, "include_dashboard": False} if address is None else {"address": address}
    try:
        ray.init(log_to_driver=False, logging_level="warning", **own)
    except Exception as error:  # of many types, up to the base class
        raise ValueError(Errors.CRF439.format(error=describe_error(error))) from error


def _enter(folder: str) -> None:
    # Tasks and actors may start elsewhere. On another machine the folder can be missing; whole paths do not need it.
    with suppress(OSError):
        os.chdir(folder)


def _find_cause(error: BaseException) -> str:
    cause: BaseException | None = error
    while cause is not None:
        text = str(cause)
        if "[CRF" in text:
            return text[text.index("[CRF") :].splitlines()[0]
        cause = cause.__cause__ or getattr(cause, "cause", None)
    return describe_error(error)
