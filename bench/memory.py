"""Resident memory of a process that tags text without end, inside and outside of `nlp.memory_zone()`.

The text is words that never occurred before, mixed into running text, so that whatever keeps strings or vectors grows.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import torch
import typer
import wasabi
from measure import resident_memory
from pipe import FOUR, System, read_words
from spacy.tokens import Doc

STEP = 20_000


def endless(sentences: list[list[str]]) -> Iterator[list[str]]:
    """Repeat the sentences, with every tenth word replaced by one that was never seen."""
    rng = random.Random(0)
    while True:
        for words in sentences:
            yield [f"{word}{rng.getrandbits(40):x}" if rng.random() < 0.1 else word for word in words]


def grow(system: System, sentences: list[list[str]], n_tokens: int, *, zone: bool) -> list[float]:
    """Tag text in steps; return the resident memory after each, in MiB."""
    stream = endless(sentences)
    sizes = []
    for _ in range(n_tokens // STEP):
        part: list[list[str]] = []
        while sum(map(len, part)) < STEP:
            part.append(next(stream))
        if zone:
            with system.nlp.memory_zone():
                tag(system, part)
        else:
            tag(system, part)
        sizes.append(resident_memory())
    return sizes


def tag(system: System, part: list[list[str]]) -> None:
    """Tag one step's text."""
    for _ in system.nlp.pipe(Doc(system.nlp.vocab, words=words) for words in part):
        pass


def main(
    text: list[Path] = typer.Option(..., help="Tagged files whose words are the text"),
    output: Path = typer.Option(Path("bench/memory.json"), help="JSON file for the results"),
    tokens: int = typer.Option(1_000_000, min=2 * STEP, help="Tokens to tag in each run"),
) -> None:
    """Print how much memory grows after the first 20,000 tokens."""
    torch.set_num_threads(1)
    sentences = read_words(text)
    system = System("ner_crf", FOUR, n_epochs=2)
    results = {}
    for name, zone in (("in a memory zone", True), ("outside", False)):
        sizes = grow(system, sentences, tokens, zone=zone)
        results[name] = sizes
        wasabi.msg.info(f"{name}: {sizes[-1] - sizes[0]:+.0f} MiB from {STEP:,} to {tokens:,} tokens")
    output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf8")


if __name__ == "__main__":
    typer.run(main)
