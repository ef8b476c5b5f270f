"""Compare `ner_crf` with spaCy's own `ner`, each in its default architecture: prediction and training, as ratios.

Both sides run in one process, by turns, on the same words, and torch computes in one thread (set OMP_NUM_THREADS=1 for
the libraries below numpy). A ratio is the median of the ratios of the single runs, our words per second over theirs.
Both models are trained for a moment first, so that they find about as many entities as the text has.

predict: `nlp.pipe` over Docs that hold words alone. No document occurs twice; our cache of word forms is warm from
    other documents.
With --vectors, both have the same word vectors; ours trains them as well, as its default does.
train: `nlp.update` on batches of 32 sentences with dropout 0.1, alignment of the annotation included.
"""

import json
import random
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import spacy
import torch
import typer
import wasabi
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.training.initialize import load_vectors_into_model
from thinc.api import Optimizer

from spacy_bilstm_crf.formats import read_docs

REPOSITORY = Path(__file__).resolve().parents[1]
TRAIN = REPOSITORY / "assets" / "en" / "train.iob"
FOUR = ["DATE", "GPE", "ORG", "PERSON"]
EIGHTEEN = FOUR + [f"LABEL_{i}" for i in range(14)]
TRAIN_BATCH = 32


def read_words(paths: Iterable[Path]) -> list[list[str]]:
    """Read the sentences of tagged files in random order."""
    nlp = spacy.blank("en")
    sentences = [[token.text for token in doc] for path in paths for doc in read_docs(path, nlp)]
    random.Random(0).shuffle(sentences)
    return sentences


class System:
    """A pipeline with one component, trained for a moment."""

    def __init__(
        self,
        factory: str,
        labels: Sequence[str],
        *,
        n_epochs: int = 6,
        model: dict[str, Any] | None = None,
        vectors: str | None = None,
    ) -> None:
        self.nlp: Language = spacy.blank("en")
        if vectors is not None:
            load_vectors_into_model(self.nlp, vectors)
        component = self.nlp.add_pipe(factory, config={"model": model} if model else {})
        docs = list(read_docs(TRAIN, self.nlp))
        self.examples = [Example(Doc(self.nlp.vocab, words=[t.text for t in doc]), doc) for doc in docs]
        for example in self.examples:
            example.reference.ents = [ent for ent in example.reference.ents if ent.label_ in labels]
        for label in labels:
            component.add_label(label)
        self.optimizer: Optimizer = self.nlp.initialize(lambda: self.examples)
        for _ in range(n_epochs):
            self.train(self.examples)

    def train(self, examples: Sequence[Example]) -> float:
        """Update on the examples; return words per second."""
        batches = [examples[i : i + TRAIN_BATCH] for i in range(0, len(examples), TRAIN_BATCH)]
        n_words = sum(len(example.reference) for example in examples)
        start = time.perf_counter()
        for batch in batches:
            self.nlp.update(batch, sgd=self.optimizer, drop=0.1)
        return n_words / (time.perf_counter() - start)

    def predict(self, sentences: Sequence[list[str]], batch_size: int | None) -> float:
        """Run the pipeline; return words per second."""
        docs = [Doc(self.nlp.vocab, words=words) for words in sentences]
        n_words = sum(map(len, sentences))
        start = time.perf_counter()
        for _ in self.nlp.pipe(docs, batch_size=batch_size):
            pass
        return n_words / (time.perf_counter() - start)


def compare_prediction(
    ours: System, theirs: System, sentences: list[list[str]], *, batch_size: int, n_docs: int, runs: int
) -> dict[str, float]:
    """Predict on fresh sentences in each run."""
    ratios, speeds = [], []
    for run in range(runs):
        part = [sentences[(run * n_docs + i) % len(sentences)] for i in range(n_docs)]
        speeds.append((ours.predict(part, batch_size), theirs.predict(part, batch_size)))
        ratios.append(speeds[-1][0] / speeds[-1][1])
    return summary(ratios, speeds)


def compare_training(ours: System, theirs: System, *, runs: int) -> dict[str, float]:
    """Update on the same examples in each run."""
    speeds = []
    for run in range(runs):
        first = run * 2 * TRAIN_BATCH % (len(ours.examples) - 4 * TRAIN_BATCH)
        part = slice(first, first + 4 * TRAIN_BATCH)
        speeds.append((ours.train(ours.examples[part]), theirs.train(theirs.examples[part])))
    return summary([left / right for left, right in speeds], speeds)


def summary(ratios: list[float], speeds: list[tuple[float, float]]) -> dict[str, float]:
    """Give the median of the ratios, their range, and the median speeds."""
    return {
        "ratio": median(ratios),
        "lowest": min(ratios),
        "highest": max(ratios),
        "our_words_per_second": median(left for left, _ in speeds),
        "their_words_per_second": median(right for _, right in speeds),
    }


def single_docs(sentences: list[list[str]], n_tokens: int = 25) -> list[list[str]]:
    """Cut the running text into documents of equal length."""
    words = [word for sentence in sentences for word in sentence]
    return [words[i : i + n_tokens] for i in range(0, len(words) - n_tokens, n_tokens)]


def main(
    text: list[Path] = typer.Option(..., help="Tagged files whose words are the text to predict on"),
    output: Path = typer.Option(Path("bench/pipe.json"), help="JSON file for the results"),
    runs: int = typer.Option(9, min=1, help="Runs of which the median counts"),
    threads: int = typer.Option(1, min=1, help="Threads of torch"),
    mixed_precision: bool = typer.Option(False, help="Let ours compute in bfloat16"),
    vectors: str | None = typer.Option(None, help="Pipeline with word vectors for both"),
) -> None:
    """Print a table of ratios and write it as JSON."""
    torch.set_num_threads(threads)
    sentences = read_words(text)
    warm, fresh = sentences[: len(sentences) // 3], sentences[len(sentences) // 3 :]
    results: list[dict] = []
    for labels in (FOUR, EIGHTEEN):
        our_model = {"mixed_precision": mixed_precision, "tok2vec": {"include_static_vectors": vectors is not None}}
        ours = System("ner_crf", labels, model=our_model, vectors=vectors)
        theirs = System("ner", labels, model={"tok2vec": {"pretrained_vectors": vectors is not None}}, vectors=vectors)
        ours.predict(warm, 1000), theirs.predict(warm[:200], 1000)
        for batch_size, n_docs in ((1000, 1000), (128, 512), (32, 256), (1, 128)):
            part = single_docs(fresh) if batch_size == 1 else fresh
            row = compare_prediction(ours, theirs, part, batch_size=batch_size, n_docs=n_docs, runs=runs)
            results.append({"what": "predict", "labels": len(labels), "batch": batch_size, **row})
        row = compare_training(ours, theirs, runs=runs)
        results.append({"what": "train", "labels": len(labels), "batch": TRAIN_BATCH, **row})
    header = ("", "labels", "batch", "ratio", "lowest", "highest", "our words/s", "their words/s")
    table = [
        (
            r["what"],
            r["labels"],
            r["batch"],
            *(f"{r[key]:.2f}" for key in ("ratio", "lowest", "highest")),
            *(f"{r[key]:,.0f}" for key in ("our_words_per_second", "their_words_per_second")),
        )
        for r in results
    ]
    wasabi.msg.table(table, header=header, divider=True, aligns=("l", *"rrrrrrr"))
    info = {"runs": runs, "threads": threads, "torch": torch.__version__, "spacy": spacy.__version__}
    output.write_text(json.dumps({**info, "rows": results}, indent=2) + "\n", encoding="utf8")


if __name__ == "__main__":
    typer.run(main)
