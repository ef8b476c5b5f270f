"""The manifest: what the output was made of, so that nothing else is mixed into it."""

import hashlib
import json
import os
import platform
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from ..errors import Errors
from .folders import Folder, write_file
from .job import InputFile, Job, Slice
from .paths import is_url, without_query
from .receipts import ERRORS, RECEIPTS, SHARDS, SUBFOLDERS, Counts, read_receipt, remove_output

MANIFEST = "manifest.json"
_LIBRARIES = ("spacy-bilstm-crf", "spacy", "thinc", "torch", "numpy", "pyarrow", "ray")
COUNTS = ("n_docs", "n_tokens", "n_entities", "n_failures")
_CHUNK = 1 << 20


@dataclass
class Manifest:
    """What stands in the manifest.

    model (dict): Name, version and SHA-256 of the pipeline.
    options (dict): The options that decide what is written.
    inputs (list[dict]): The input files with sizes, and what has been done of them.
    status (str): "running", "stopped" or "complete".
    n_shards (int): Number of finished shards.
    n_wanted (int | None): Number of shards when all is done. None until a run has got there.
    seconds (float): Time of all runs.
    runs (list[dict]): For each run its engine, workers, versions and time.
    """

    model: dict[str, Any]
    options: dict[str, Any]
    inputs: list[dict[str, Any]]
    status: str = "running"
    n_shards: int = 0
    n_wanted: int | None = None
    seconds: float = 0.0
    runs: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def plan(cls, job: Job, inputs: Sequence[InputFile]) -> "Manifest":
        """Begin the manifest of a run.

        job (Job): The options.
        inputs (Sequence[InputFile]): The input files.
        RETURNS (Manifest): The manifest, with nothing done.
        RAISES (ValueError): CRF432 if there is no such model, CRF442 if the code cannot be read.
        """
        options = {name: value for name, value in job.to_dict().items() if name not in ("model", "output")}
        if job.code is not None:
            try:
                options["code"] = {"path": job.code, "sha256": _hash_files([Path(job.code)])}
            except OSError as error:
                raise ValueError(Errors.CRF442.format(path=job.code, error=error)) from error
        files = [{**asdict(source), **dict.fromkeys(COUNTS, 0)} for source in inputs]
        return cls(describe_model(job.model), options, files)

    def add(self, counts: Counts) -> None:
        """Count a finished shard.

        counts (Counts): The counts of its receipt.
        """
        self.n_shards += 1
        for name in COUNTS:
            self.inputs[counts["file"]][name] += counts[name]

    def total(self, name: str) -> int:
        """Add up a count over all input files.

        name (str): "n_docs", "n_tokens", "n_entities" or "n_failures".
        RETURNS (int): The sum.
        """
        return sum(source[name] for source in self.inputs)

    def write(self, folder: Folder) -> None:
        """Store it.

        folder (Folder): The output folder.
        """
        data = {**asdict(self), "counts": {name: self.total(name) for name in COUNTS}}
        write_file(folder, MANIFEST, json.dumps(data, indent=2).encode("utf8") + b"\n")


def output_paths(output: str) -> list[str]:
    """Name what a run writes, for it is no input.

    output (str): Path or URL of the output folder.
    RETURNS (list[str]): Paths or URLs of files and folders.
    """
    root = without_query(output).rstrip("/") if is_url(output) else os.path.abspath(output)
    return [f"{root}/{name}" for name in (*SUBFOLDERS, ERRORS, MANIFEST)]


def begin_run(engine: str, n_process: int, gpu_id: int) -> dict[str, Any]:
    """Describe a run that begins now.

    engine (str): The engine.
    n_process (int): Number of its workers.
    gpu_id (int): The GPU. -1 for none.
    RETURNS (dict): The description.
    """
    started = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return {"started": started, "engine": engine, "n_process": n_process, "gpu_id": gpu_id, "versions": _versions()}


def continue_or_begin(
    folder: Folder, planned: Manifest, output: str, *, force: bool = False, retry_errors: bool = False
) -> Manifest:
    """Find out whether the output folder holds a part of what is to be done.

    folder (Folder): The output folder.
    planned (Manifest): What is to be done.
    output (str): The folder's path or URL.
    force (bool): Remove what another run has written.
    retry_errors (bool): Accept that input files have changed from which documents are missing, and remove their shards.
    RETURNS (Manifest): The planned one, with the time of earlier runs.
    RAISES (ValueError): CRF423 if another model, other options or other inputs were used, CRF424 if there are shards
        or a manifest of which nothing is known.
    """
    if force:
        remove_output(folder)
        folder.remove(MANIFEST)
        return planned
    try:
        earlier = json.loads(folder.read(MANIFEST))
        repaired = _find_repaired(folder, earlier, planned) if retry_errors else set()
        differing = list(_differences(earlier, planned, repaired))
        planned.seconds, planned.runs, planned.n_wanted = (earlier[name] for name in ("seconds", "runs", "n_wanted"))
    except FileNotFoundError as error:
        if folder.names(SHARDS) or folder.names(RECEIPTS):
            raise ValueError(Errors.CRF424.format(output=output, error=error)) from error
        return planned
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        text = f"{type(error).__name__}: {error}"
        raise ValueError(Errors.CRF424.format(output=output, error=text)) from error
    if differing:
        raise ValueError(Errors.CRF423.format(output=output, differing="; ".join(differing)))
    if repaired:
        planned.n_wanted = None
        # Receipts stay: they say that the files may be others, should this process end before the manifest is written.
        for name in [name for name in folder.names(SHARDS) if _read_file(name) in repaired]:
            folder.remove(f"{SHARDS}/{name}")
    return planned


def describe_model(name: str) -> dict[str, Any]:
    """Name a pipeline, and take its fingerprint, without loading it.

    name (str): A package or path.
    RETURNS (dict): Name, version and SHA-256 of its files.
    RAISES (ValueError): CRF432 if there is no such pipeline.
    """
    from spacy import util

    try:
        if name.startswith("blank:"):
            return {"path": name, "name": name, "version": "", "sha256": ""}
        path = util.get_package_path(name) if util.is_package(name) else Path(name)
        meta = util.get_model_meta(path)
        files = sorted(file for file in path.rglob("*") if file.is_file() and file.suffix != ".pyc")
        label = {"path": name, "name": f"{meta['lang']}_{meta['name']}", "version": meta["version"]}
        return {**label, "sha256": _hash_files(files)}
    except (OSError, ImportError, ValueError, KeyError) as error:
        raise ValueError(Errors.CRF432.format(model=name, error=error)) from error


def _hash_files(paths: Sequence[Path]) -> str:
    sha = hashlib.sha256()
    for path in paths:
        sha.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                sha.update(chunk)
    return sha.hexdigest()


def _find_repaired(folder: Folder, earlier: dict[str, Any], planned: Manifest) -> set[int]:
    """Find the input files that have changed since documents of theirs could not be read."""
    before, now = earlier["inputs"], planned.inputs
    if [source["path"] for source in before] != [source["path"] for source in now]:
        return set()
    changed = {i for i, source in enumerate(now) if source["n_bytes"] != before[i]["n_bytes"]}
    receipts = [name.rpartition(".")[0] for name in folder.names(RECEIPTS) if _read_file(name) in changed]
    return {receipt.file for receipt in (read_receipt(folder, name) for name in receipts) if receipt.failures}


def _read_file(name: str) -> int | None:
    """Read the input file's position from the name of a shard's or receipt's file. None for other files."""
    try:
        return Slice.read_name(name.partition(".")[0])[0]
    except ValueError:
        return None


def _differences(earlier: dict[str, Any], planned: Manifest, repaired: Collection[int]) -> list[str]:
    found = []
    if earlier["model"]["sha256"] != planned.model["sha256"] or earlier["model"]["name"] != planned.model["name"]:
        labels = [f"{m['name']} {m['version']} ({m['sha256'][:8]})" for m in (earlier["model"], planned.model)]
        found.append(f"the model was {labels[0]} and is {labels[1]}")
    for name, value in planned.options.items():
        if earlier["options"].get(name) != value:
            found.append(f"{name} was {earlier['options'].get(name)} and is {value}")
    before, now = (
        [(source["path"], None if i in repaired else source["n_bytes"]) for i, source in enumerate(inputs)]
        for inputs in (earlier["inputs"], planned.inputs)
    )
    if before != now:
        changed = sorted({path for path, _ in set(before) ^ set(now)})
        names = ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")
        found.append(f"the input was another ({names or 'the order of the files'})")
    return found


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions
