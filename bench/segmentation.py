"""Compare `segmenter_crf` with spacy-pkuseg and jieba on segmented text: scores, speed and memory.

The data is a folder with train.txt, dev.txt and test.txt: a sentence a line, words separated by a space. Our systems
and spacy-pkuseg (`spacy_pkuseg.train`, without its dictionary) learn from train.txt alone, ours keep what is best on
dev.txt; jieba brings a dictionary of its own. Models and scores are kept in a folder, so a stopped comparison goes on
where it was.

scores: words found in test.txt, and the recall of those that are not in train.txt; means over seeds, and the standard
    deviation of F.
speed: characters per second from text to words, on the sentences of all three files, both sides by turns in one
    process and one thread (set OMP_NUM_THREADS=1), none of them seen before by the pipeline that is timed. `nlp.pipe`
    includes our tokenizer and the making of Docs; the others give lists of strings.
memory: growth of the process while `nlp.pipe` goes through the text again and again inside of `nlp.memory_zone()`, each
    time with its characters in another order.
"""

import gc
import json
import random
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import jieba
import spacy
import spacy_pkuseg
import torch
import typer
import wasabi
from measure import resident_memory
from spacy import util
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from spacy.training.initialize import init_nlp
from spacy.training.loop import train

from spacy_bilstm_crf.formats import ReadOptions, read_docs
from spacy_bilstm_crf.scorers import score_segmentation

REPOSITORY = Path(__file__).resolve().parents[1]
CONFIG = REPOSITORY / "configs" / "zh_seg.cfg"
MODEL = "components.segmenter_crf.model"
SYSTEMS: dict[str, dict[str, Any]] = {
    "default": {},
    "softmax": {f"{MODEL}.crf": False},
    "unconstrained": {f"{MODEL}.constrained": False},
}
SEGMENTED = ReadOptions(format="seg")
Words = list[list[str]]


def read_words(path: Path) -> Words:
    """Read a file of segmented sentences."""
    lines = path.read_text(encoding="utf8").splitlines()
    return [line.split() for line in lines if line.strip()]


def score(found: Iterable[list[str]], gold: Words, known: set[str]) -> dict[str, float]:
    """Score words as the component does."""
    vocab = spacy.blank("zh").vocab
    docs = [[Doc(vocab, words=words, spaces=[False] * len(words)) for words in part] for part in (found, gold)]
    scores = score_segmentation([Example(*pair) for pair in zip(*docs, strict=True)], known_words=known)
    return {name: 100 * scores[name] for name in ("token_p", "token_r", "token_f", "token_oov_r")}


def segment(nlp: Language, texts: list[str]) -> Words:
    """Find words with a pipeline."""
    return [[token.text for token in doc] for doc in nlp.pipe(texts)]


def train_ours(system: str, seed: int, data: Path, folder: Path) -> Path:
    """Train one of our systems, or find its model."""
    out = folder / f"{system}-{seed}"
    if (out / "done").exists():
        return out / "model-best"
    out.mkdir(parents=True, exist_ok=True)
    nlp = spacy.blank("zh")
    for split in ("train", "dev"):
        DocBin(docs=read_docs(data / f"{split}.txt", nlp, options=SEGMENTED)).to_disk(out / f"{split}.spacy")
    paths = {f"paths.{split}": str(out / f"{split}.spacy") for split in ("train", "dev")}
    config = util.load_config(CONFIG, overrides={**paths, "system.seed": seed, **SYSTEMS[system]}, interpolate=False)
    start = time.perf_counter()
    with (out / "log.txt").open("w", encoding="utf8") as log:
        train(init_nlp(config), out, stdout=log, stderr=log)
    (out / "done").write_text(f"{time.perf_counter() - start:.0f} seconds", encoding="utf8")
    return out / "model-best"


def train_pkuseg(data: Path, folder: Path) -> Any:
    """Train spacy-pkuseg, or find its model, and load it."""
    out = folder / "pkuseg"
    if not (out / "weights.npz").exists():
        spacy_pkuseg.train(str(data / "train.txt"), str(data / "dev.txt"), str(out))
    return spacy_pkuseg.pkuseg(str(out), user_dict=None)


def compare_scores(data: Path, folder: Path, seeds: int, cutters: dict[str, Callable]) -> list[dict[str, Any]]:
    """Score all systems on the test file."""
    gold = {split: read_words(data / f"{split}.txt") for split in ("dev", "test")}
    known = {word for words in read_words(data / "train.txt") for word in words}
    results = []
    for system in SYSTEMS:
        for seed in range(seeds):
            nlp = spacy.load(train_ours(system, seed, data, folder))
            for split, words in gold.items():
                found = segment(nlp, ["".join(sentence) for sentence in words])
                results.append({"system": system, "seed": seed, "split": split, **score(found, words, known)})
            wasabi.msg.info(f"{system} {seed}: {results[-1]['token_f']:.2f}")
    for system, cut in cutters.items():
        for split, words in gold.items():
            found = [list(cut("".join(sentence))) for sentence in words]
            results.append({"system": system, "seed": 0, "split": split, **score(found, words, known)})
    return results


def print_scores(results: list[dict[str, Any]]) -> None:
    """Print means over seeds."""
    rows = []
    for system in dict.fromkeys(result["system"] for result in results):
        row: list[str] = [system]
        for split in ("dev", "test"):
            group = [result for result in results if (result["system"], result["split"]) == (system, split)]
            scores = [result["token_f"] for result in group]
            spread = f" ±{stdev(scores):.2f}" if len(group) > 1 else ""
            row += [f"{mean(scores):.2f}{spread}", f"{mean(result['token_oov_r'] for result in group):.1f}"]
        rows.append(row)
    header = ("system", "dev F", "dev OOV R", "test F", "test OOV R")
    wasabi.msg.table(rows, header=header, divider=True, aligns=("l", "r", "r", "r", "r"))


def compare_speed(nlp: Language, texts: list[str], cutters: dict[str, Callable], runs: int) -> list[dict[str, Any]]:
    """Cut the text by turns, a part of it in each run."""
    # What the comparison has loaded, models and scores, is no garbage that a program would have Python look through.
    gc.collect()
    gc.freeze()
    n_texts = len(texts) // runs
    times: dict[str, list[float]] = {"segmenter_crf": [], **{name: [] for name in cutters}}
    for run in range(runs):
        part = texts[run * n_texts : (run + 1) * n_texts]
        n_characters = sum(map(len, part))
        for name, cut in {"segmenter_crf": lambda part: list(nlp.pipe(part)), **cutters}.items():
            start = time.perf_counter()
            cut(part) if name == "segmenter_crf" else [list(cut(text)) for text in part]
            times[name].append(n_characters / (time.perf_counter() - start))
    ours = times["segmenter_crf"]
    return [
        {
            "system": name,
            "characters_per_second": median(speeds),
            "ratio": median(left / right for left, right in zip(ours, speeds, strict=True)),
        }
        for name, speeds in times.items()
    ]


def measure_growth(nlp: Language, texts: list[str], n_characters: int = 1_000_000) -> list[float]:
    """Growth of resident memory in MiB, from a tenth of the characters to all of them, and by as many again."""
    sizes, done = [], 0
    rng = random.Random(0)
    for limit in (n_characters // 10, n_characters, 2 * n_characters):
        while done < limit:
            # Another order of the characters each time: there are always words that were never seen.
            shuffled = ["".join(rng.sample(text, len(text))) for text in texts]
            with nlp.memory_zone():
                for doc in nlp.pipe(shuffled):
                    done += len(doc.text)
        sizes.append(resident_memory())
    return [after - before for before, after in pairwise(sizes)]


def main(
    data: Path = typer.Argument(..., help="Folder with train.txt, dev.txt and test.txt"),
    folder: Path = typer.Option(Path("training/segmentation"), help="Where models are kept"),
    output: Path = typer.Option(Path("bench/segmentation.json"), help="JSON file for the results"),
    seeds: int = typer.Option(3, min=1, help="Trainings of each system"),
    runs: int = typer.Option(9, min=1, help="Runs of which the median counts"),
    threads: int = typer.Option(1, min=1, help="Threads of torch"),
) -> None:
    """Print tables of scores, speeds and memory, and write them as JSON."""
    torch.set_num_threads(threads)
    jieba.initialize()
    cutters = {"spacy-pkuseg": train_pkuseg(data, folder).cut, "jieba": jieba.cut}
    scores = compare_scores(data, folder, seeds, cutters)
    print_scores(scores)
    nlp = spacy.load(folder / "default-0" / "model-best")
    texts = ["".join(words) for split in ("test", "dev", "train") for words in read_words(data / f"{split}.txt")]
    # Before the speed, for the others have cut the text once, and a program starts but once.
    growth = measure_growth(nlp, texts)
    speeds = compare_speed(nlp, texts, cutters, runs)
    rows = [(row["system"], f"{row['characters_per_second']:,.0f}", f"{row['ratio']:.2f}") for row in speeds]
    wasabi.msg.table(rows, header=("system", "characters/s", "ours over it"), divider=True, aligns=("l", "r", "r"))
    wasabi.msg.text(
        f"Growth over a million characters: {growth[0]:.1f} MiB, over the next million: {growth[1]:.1f} MiB"
    )
    size = sum(path.stat().st_size for path in (folder / "default-0" / "model-best").rglob("*") if path.is_file())
    wasabi.msg.text(f"Size of the model on disk: {size / 2**20:.1f} MiB")
    output.write_text(
        json.dumps({"scores": scores, "speed": speeds, "growth_mib": growth, "model_mib": size / 2**20}, indent=2),
        encoding="utf8",
    )


if __name__ == "__main__":
    typer.run(main)
