"""Check what `spacy crf annotate` promises for large corpora: the same results, nothing lost, flat memory, more speed.

parity: local and ray against `nlp.pipe`, on the same lines: entities, order, probabilities.
kills: `kill -9` of the parent at random moments, then the same command until it ends: every document once.
memory: the largest resident memory of parent and worker over many lines and over few, with words that never end.
workers: documents per second of two workers over those of one, without the time to load the pipeline.

The pipeline is trained for a moment on `assets/en`. Give a folder with --model to use another. Memory is read from
/proc, so that check needs Linux. Figures of time mean something only on a machine that does nothing else.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import spacy
import typer
from spacy.training import Example
from wasabi.printer import Printer

from spacy_bilstm_crf.annotate import Job, annotate
from spacy_bilstm_crf.annotate.tagging import want_probabilities
from spacy_bilstm_crf.formats import read_docs

REPOSITORY = Path(__file__).resolve().parents[1]
TRAIN = REPOSITORY / "assets" / "en" / "train.iob"

app = typer.Typer(help=__doc__, add_completion=False)
msg = Printer()


def make_model(path: Path, *, hidden_width: int, n_epochs: int = 6) -> Path:
    """Train a pipeline for a moment, so that it finds about as many entities as the text has."""
    nlp = spacy.blank("en")
    nlp.add_pipe("ner_crf", config={"model": {"hidden_width": hidden_width}})
    examples = [Example(nlp.make_doc(doc.text), doc) for doc in read_docs(TRAIN, nlp)]
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(n_epochs):
        for batch in spacy.util.minibatch(examples, 32):
            nlp.update(batch, sgd=optimizer)
    nlp.to_disk(path)
    return path


def make_lines(n: int, *, n_words: tuple[int, int], n_new: int = 0) -> Iterator[str]:
    """Make lines of the words of the training text, each with a new word now and then if these are wanted."""
    source = random.Random(0)
    words = [line.split()[0] for line in TRAIN.read_text(encoding="utf8").splitlines() if line.strip()]
    for _ in range(n):
        line = source.choices(words, k=source.randint(*n_words))
        if n_new:
            line.append(f"w{source.randrange(n_new)}")
        yield " ".join(line)


def write_lines(path: Path, lines: Iterator[str]) -> Path:
    with path.open("w", encoding="utf8") as file:
        file.writelines(f"{line}\n" for line in lines)
    return path


def read_rows(output: Path) -> Iterator[dict]:
    for shard in sorted((output / "shards").iterdir()):
        with shard.open(encoding="utf8") as file:
            yield from map(json.loads, file)


def start(model: Path, text: Path, output: Path, *options: object) -> subprocess.Popen:
    command = [sys.executable, "-m", "spacy", "crf", "annotate", model, text, output, *options]
    return subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def as_place(ent: dict) -> tuple:
    return ent["start"], ent["end"], ent["token_start"], ent["token_end"], ent["label"]


def check_parity(model: Path, folder: Path, n_lines: int, engines: list[str]) -> dict[str, object]:
    """Compare each engine with `nlp.pipe`."""
    text = write_lines(folder / "parity.txt", make_lines(n_lines, n_words=(5, 30)))
    outputs = {engine: folder / f"parity_{engine}" for engine in engines}
    for engine, output in outputs.items():
        annotate(Job(str(model), str(output), shard_size=1000), [str(text)], engine=engine, n_process=2)
    nlp = spacy.load(model)
    want_probabilities(nlp)
    lines = text.read_text(encoding="utf8").splitlines()
    result: dict[str, object] = {"lines": n_lines}
    for engine, output in outputs.items():
        rows = list(read_rows(output))
        in_order = [row["text"] for row in rows] == lines and [row["id"] for row in rows] == [
            f"{text}:{i + 1}" for i in range(n_lines)
        ]
        n_same = n_ents = 0
        worst = 0.0
        for row, doc in zip(rows, nlp.pipe(lines), strict=True):
            expected = [(e.start_char, e.end_char, e.start, e.end, e.label_) for e in doc.ents]
            n_same += [as_place(ent) for ent in row["entities"]] == expected
            n_ents += len(expected)
            pairs = zip(row["entities"], doc.ents, strict=False)
            worst = max([worst, *(abs(ent["probability"] - span._.prob) for ent, span in pairs)])
        result[engine] = {"in_order": in_order, "same_docs": n_same, "entities": n_ents, "largest_difference": worst}
    return result


def n_shards(output: Path) -> int:
    folder = output / "shards"
    return sum(not name.startswith(".") for name in os.listdir(folder)) if folder.is_dir() else 0


def check_kills(model: Path, folder: Path, n_lines: int, n_kills: int) -> dict[str, object]:
    """Kill a run at random moments until it has been killed often enough, then let it end."""
    text = write_lines(folder / "kills.txt", make_lines(n_lines, n_words=(5, 30)))
    output = folder / "kills"
    source = random.Random(1)
    options = ["--shard-size", max(1, n_lines // 200), "-n", 2]
    shards = []
    while len(shards) < n_kills:
        process = start(model, text, output, *options)
        before = n_shards(output)
        is_early = source.random() < 0.3  # while pipelines are loaded; else when shards have begun to come
        while not is_early and n_shards(output) == before and process.poll() is None:
            time.sleep(0.02)
        time.sleep(source.uniform(0, 5 if is_early else 1.5))
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.wait()
        shards.append(n_shards(output))
    code = start(model, text, output, *options).wait()
    ids = [row["id"] for row in read_rows(output)]
    complete = ids == [f"{text}:{i + 1}" for i in range(n_lines)]
    return {
        "lines": n_lines,
        "kills": len(shards),
        "shards_after_each": shards,
        "exit_code": code,
        "each_once": complete,
    }


def resident_mb(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        return 0.0


def children(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def check_memory(model: Path, folder: Path, sizes: list[int], output_format: str) -> dict[str, object]:
    """Watch parent and worker over inputs of different sizes."""
    result: dict[str, object] = {}
    for n_lines in sizes:
        text = write_lines(folder / f"memory_{n_lines}.txt", make_lines(n_lines, n_words=(2, 6), n_new=10 * n_lines))
        process = start(model, text, folder / f"memory_{n_lines}", "--format", output_format)
        parent = worker = 0.0
        while process.poll() is None:
            parent = max(parent, resident_mb(process.pid))
            worker = max([worker, *map(resident_mb, children(process.pid))])
            time.sleep(0.2)
        result[str(n_lines)] = {"parent_mb": round(parent), "worker_mb": round(worker), "exit_code": process.returncode}
        text.unlink()
    return result


def check_workers(model: Path, folder: Path, n_lines: int, n_times: int) -> dict[str, object]:
    """Compare two workers with one, by turns, from the first finished shard to the last."""
    text = write_lines(folder / "workers.txt", make_lines(n_lines, n_words=(5, 30)))
    rates: dict[int, list[float]] = {1: [], 2: []}
    for i in range(n_times):
        for n_process in (1, 2):
            output = folder / f"workers_{n_process}_{i}"
            job = Job(str(model), str(output), shard_size=max(1, n_lines // 100))
            started = time.perf_counter()
            annotate(job, [str(text)], n_process=n_process)
            whole = time.perf_counter() - started
            times = sorted(shard.stat().st_mtime for shard in (output / "shards").iterdir())
            # the first shards of all workers end at about the same time
            rates[n_process].append((len(times) - n_process) / (times[-1] - times[n_process - 1]))
            msg.text(f"{n_process} worker(s): {n_lines / whole:,.0f} docs/s with loading")
    ratios = [two / one for one, two in zip(rates[1], rates[2], strict=True)]
    return {
        "lines": n_lines,
        "times": n_times,
        "ratio": round(median(ratios), 2),
        "ratios": [round(r, 2) for r in ratios],
    }


@app.command()
def main(
    checks: str = typer.Option("parity,kills,workers,memory", help="Which checks, separated by commas"),
    model: Path | None = typer.Option(None, help="A saved pipeline instead of the one that is trained here"),
    hidden_width: int = typer.Option(100, help="Width of the BiLSTM that is trained here"),
    n_lines: int = typer.Option(20_000, help="Lines for parity, kills and workers"),
    n_kills: int = typer.Option(10, help="How often a run is killed"),
    n_times: int = typer.Option(3, help="How often each number of workers is timed"),
    memory_sizes: str = typer.Option("10000,1000000", help="Numbers of lines for memory"),
    output_format: str = typer.Option("jsonl", help="Output format for memory"),
    engines: str = typer.Option("local,ray", help="Engines for parity"),
    output: Path | None = typer.Option(None, help="JSON file for the results"),
) -> None:
    results: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = model or make_model(folder / "model", hidden_width=hidden_width)
        for check in checks.split(","):
            msg.divider(check)
            if check == "parity":
                results[check] = check_parity(path, folder, n_lines, engines.split(","))
            elif check == "kills":
                results[check] = check_kills(path, folder, n_lines, n_kills)
            elif check == "memory":
                sizes = [int(size) for size in memory_sizes.split(",")]
                results[check] = check_memory(path, folder, sizes, output_format)
            else:
                results[check] = check_workers(path, folder, n_lines, n_times)
            msg.text(json.dumps(results[check], indent=2))
    if output is not None:
        output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf8")


if __name__ == "__main__":
    app()
