"""How time and memory of `ner_crf` grow: with the tokens of a document, with the labels and with the batch.

tokens: one document of running text, beside spaCy's own `ner` on the same words, by turns; the median of the runs.
    Memory is the growth of a fresh process's peak by the longest document, after a short one.
labels: `nlp.pipe` over the same sentences with more and more labels, BIOES, batches of 128.
batch: `nlp.pipe` over the same sentences with larger and larger batches.
"""

import json
import time
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import torch
import typer
import wasabi
from measure import peak_memory
from pipe import FOUR, System, read_words

TOKENS = (500, 1000, 5000, 20_000)
LABELS = (1, 4, 9, 18, 36)
BATCHES = (1, 8, 32, 128, 512, 1000)


def seconds(system: System, docs: list[list[str]], batch_size: int) -> float:
    """Time of one run of the pipeline."""
    start = time.perf_counter()
    words_per_second = system.predict(docs, batch_size)
    return min(time.perf_counter() - start, sum(map(len, docs)) / words_per_second)


def grow_tokens(words: list[str], runs: int) -> list[dict[str, Any]]:
    """Predict on one document, ours and theirs by turns."""
    ours, theirs = System("ner_crf", FOUR), System("ner", FOUR)
    rows = []
    for n_tokens in TOKENS:
        doc = [words[:n_tokens]]
        times = [(seconds(ours, doc, 1), seconds(theirs, doc, 1)) for _ in range(runs + 1)][1:]
        ratio = median(right / left for left, right in times)
        rows.append({"tokens": n_tokens, "seconds": median(left for left, _ in times), "ratio": ratio})
    return rows


def memory_of_longest(words: list[str]) -> float:
    """Growth of the peak memory, in MiB, by the longest document. To be called in a fresh process."""
    system = System("ner_crf", FOUR, n_epochs=1)
    system.predict([words[:500]], 1)
    before = peak_memory()
    system.predict([words[: TOKENS[-1]]], 1)
    return peak_memory() - before


def grow_labels(sentences: list[list[str]], runs: int) -> list[dict[str, Any]]:
    """Predict with more and more labels."""
    rows = []
    for n_labels in LABELS:
        labels = (FOUR + [f"LABEL_{i}" for i in range(n_labels)])[:n_labels]
        system = System("ner_crf", labels, n_epochs=2)
        system.predict(sentences, 128)
        speed = median(system.predict(sentences, 128) for _ in range(runs))
        rows.append({"labels": n_labels, "tags": 4 * n_labels + 1, "words_per_second": speed})
    return rows


def grow_batches(sentences: list[list[str]], runs: int) -> list[dict[str, Any]]:
    """Predict with larger and larger batches."""
    system = System("ner_crf", FOUR, n_epochs=2)
    system.predict(sentences, 1000)
    return [
        {"batch": size, "words_per_second": median(system.predict(sentences, size) for _ in range(runs))}
        for size in BATCHES
    ]


def print_rows(rows: list[dict[str, Any]]) -> None:
    """Print rows that have the same keys."""
    table = [[f"{value:,.3g}" if isinstance(value, float) else str(value) for value in row.values()] for row in rows]
    wasabi.msg.table(table, header=list(rows[0]), divider=True, aligns=["r"] * len(rows[0]))


def main(
    text: list[Path] = typer.Option(..., help="Tagged files whose words are the text to predict on"),
    output: Path = typer.Option(Path("bench/growth.json"), help="JSON file for the results"),
    runs: int = typer.Option(7, min=1, help="Runs of which the median counts"),
) -> None:
    """Print three tables and write them as JSON."""
    torch.set_num_threads(1)
    sentences = read_words(text)
    words = [word for sentence in sentences for word in sentence]
    results: dict[str, Any] = {"tokens": grow_tokens(words, runs)}
    with get_context("spawn").Pool(1) as pool:
        results["longest_mib"] = pool.apply(memory_of_longest, (words,))
    results["labels"] = grow_labels(sentences[:1000], runs)
    results["batches"] = grow_batches(sentences[:1000], runs)
    for name in ("tokens", "labels", "batches"):
        print_rows(results[name])
    times = {row["tokens"]: row["seconds"] for row in results["tokens"]}
    wasabi.msg.info(f"time at 20,000 tokens over time at 5,000: {times[20_000] / times[5000]:.2f}")
    wasabi.msg.info(f"peak memory for one document of 20,000 tokens: {results['longest_mib']:.0f} MiB")
    output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf8")


if __name__ == "__main__":
    typer.run(main)
