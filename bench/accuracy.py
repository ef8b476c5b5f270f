"""Train systems on corpora with several seeds and compare their test scores.

Each training is what `spacy train` does with configs/ner.cfg and a system's changes to it; the best model on dev is
tested once. Finished runs are kept in a JSON lines file and not run again, so a stopped comparison goes on where it
was. A corpus is a folder with tagged files train, dev and test (.conll or .iob).

With --vectors, every system but "no-vectors" starts from configs/ner_vectors.cfg and has the same word vectors. With
--transformer, the systems are "transformer" (configs/ner_trf.cfg) and "spacy-ner", both on that transformer, with one
set of training settings. With --size, only so many sentences of the training data are used, the first ones.

train w/s: words per second of training, every step and the evaluations on dev included.
w/s: words per second of `nlp.evaluate` on test, scoring included.
illegal: share of the test sentences, in percent, whose best tag path breaks the rules of the scheme before it is
    repaired. A constrained CRF has none.
"""

import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy
import spacy
import torch
import typer
import wasabi
from spacy import util
from spacy.cli.init_config import init_config
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training import Corpus, Example
from spacy.training.initialize import init_nlp
from spacy.training.loop import train
from thinc.api import Config

from spacy_bilstm_crf.formats import read_docs

REPOSITORY = Path(__file__).resolve().parents[1]
CONFIGS = REPOSITORY / "configs"
SPACY, TRANSFORMER, NO_VECTORS = "spacy-ner", "transformer", "no-vectors"
MODEL = "components.ner_crf.model"
SYSTEMS: dict[str, dict[str, Any]] = {
    "default": {},
    "softmax": {f"{MODEL}.crf": False},
    "unconstrained": {f"{MODEL}.constrained": False},
    "BIO": {"components.ner_crf.tag_scheme": "BIO"},
    "bfloat16": {f"{MODEL}.mixed_precision": True},
    # What spaCy does: a layer that mixes the features of a word before the BiLSTM reads them.
    "mixed": {},
    "no-characters": {f"{MODEL}.tok2vec.char_filters": 0},
    "frozen-vectors": {f"{MODEL}.tok2vec.fine_tune_vectors": False},
    NO_VECTORS: {},
    TRANSFORMER: {},
    SPACY: {},
}
SPLITS = ("train", "dev", "test")


def make_mixed_embed(embed: dict[str, Any]) -> dict[str, Any]:
    """Describe an embedding like this one, whose features of words a layer of their own mixes to a width of 64."""
    parts: dict[str, Any] = {
        "features": {
            "@architectures": "spacy.MultiHashEmbed.v2",
            "width": 64,
            "attrs": embed["attrs"],
            "rows": embed["rows"],
            "include_static_vectors": False,
        },
        "characters": {"@architectures": "spacy-bilstm-crf.CharCNN.v1"},
    }
    if embed["include_static_vectors"]:
        parts["vectors"] = {"@architectures": "spacy-bilstm-crf.WordVectors.v1", "width": 64}
    return {
        "@architectures": "spacy-bilstm-crf.WordFormEmbed.v1",
        "min_count": embed["min_count"],
        "unseen_rate": embed["unseen_rate"],
        "embed": {"@layers": "concatenate.v1", "*": parts},
    }


def convert(folder: Path, lang: str, out: Path) -> None:
    """Write the splits of a corpus as spaCy's binary files."""
    nlp = spacy.blank(lang)
    for split in SPLITS:
        path = next(path for path in (folder / f"{split}.conll", folder / f"{split}.iob") if path.exists())
        DocBin(docs=read_docs(path, nlp)).to_disk(out / f"{split}.spacy")


@dataclass(frozen=True)
class Task:
    """What a system is trained on and with.

    folder (Path): The corpus.
    lang (str): Its language.
    seed (int): The seed.
    size (int): Number of training sentences; 0 for all.
    vectors (str | None): Name or path of a pipeline with word vectors.
    transformer (str | None): Name or path of a transformer.
    """

    folder: Path
    lang: str = "en"
    seed: int = 0
    size: int = 0
    vectors: str | None = None
    transformer: str | None = None


def load_config(system: str, task: Task, overrides: dict[str, Any]) -> Config:
    """Make the training config of a system."""
    changes = {"nlp.lang": task.lang, "system.seed": task.seed, **SYSTEMS[system], **overrides}
    if system == SPACY and task.transformer is None:
        config = init_config(lang=task.lang, pipeline=["ner"], optimize="efficiency", silent=True)
        if task.vectors is not None:
            config["paths"]["vectors"] = task.vectors
            config["components"]["tok2vec"]["model"]["embed"]["include_static_vectors"] = True
        return Config().from_str(config.to_str(), overrides=changes, interpolate=False)
    if task.transformer is not None:
        name, changes["paths.transformer"] = "ner_trf.cfg", task.transformer
    elif task.vectors is not None and system != NO_VECTORS:
        name, changes["paths.vectors"] = "ner_vectors.cfg", task.vectors
    else:
        name = "ner.cfg"
    config = util.load_config(CONFIGS / name, overrides=changes, interpolate=False)
    if system == "mixed":
        model = config["components"]["ner_crf"]["model"]
        model["tok2vec"] = make_mixed_embed(model["tok2vec"])
    return replace_with_spacys(config) if system == SPACY else config


def replace_with_spacys(config: Config) -> Config:
    """Put spaCy's own recognizer on the same transformer, with its own settings for that."""
    spacys = init_config(lang="en", pipeline=["ner"], optimize="accuracy", gpu=True, silent=True)
    del config["components"]["ner_crf"]
    config["components"]["ner"] = spacys["components"]["ner"]
    config["nlp"]["pipeline"] = ["transformer", "ner"]
    return config


def count_words(nlp: Language) -> Counter[str]:
    """Count the words that training sees."""
    counts: Counter[str] = Counter()
    update = nlp.update

    def counting_update(examples: Iterable[Example], *args: Any, **kwargs: Any) -> dict[str, float]:
        examples = list(examples)
        counts["words"] += sum(len(example.predicted) for example in examples)
        return update(examples, *args, **kwargs)

    nlp.update = counting_update  # type: ignore[method-assign]
    return counts


def run(system: str, task: Task, overrides: dict[str, Any] | None = None) -> dict[str, Any]:
    """Train one system and test it."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name)
        convert(task.folder, task.lang, out)
        if task.size:
            path = out / "train.spacy"
            docs = islice(DocBin().from_disk(path).get_docs(spacy.blank(task.lang).vocab), task.size)
            DocBin(docs=list(docs)).to_disk(path)
        return train_and_test(system, task, out, overrides or {})


def train_and_test(system: str, task: Task, out: Path, overrides: dict[str, Any]) -> dict[str, Any]:
    """Train one system on the files of a folder and test it."""
    (out / "model").mkdir()
    paths = {f"paths.{split}": str(out / f"{split}.spacy") for split in ("train", "dev")}
    start = time.perf_counter()
    nlp = init_nlp(load_config(system, task, {**paths, **overrides}))
    counts = count_words(nlp)
    with (out / "log.txt").open("w", encoding="utf8") as log:
        train(nlp, out / "model", stdout=log, stderr=log)
    seconds = time.perf_counter() - start
    best = out / "model" / "model-best"
    size = sum(path.stat().st_size for path in best.rglob("*") if path.is_file()) / 2**20
    result = {"train_seconds": seconds, "train_words_per_second": counts["words"] / seconds, "model_mib": size}
    return {**result, **test(spacy.load(best), out)}


def test(nlp: Language, folder: Path) -> dict[str, Any]:
    """Score a trained pipeline on dev and test."""
    result: dict[str, Any] = {}
    for split in ("dev", "test"):
        examples = list(Corpus(folder / f"{split}.spacy")(nlp))
        scores = nlp.evaluate(examples)
        result[split] = {key: 100 * scores[f"ents_{key}"] for key in "prf"}
        result["words_per_second"] = scores["speed"]
    result["illegal"] = illegal_share(nlp, examples)
    return result


def illegal_share(nlp: Language, examples: list[Example]) -> float | None:
    """Find the share of tag paths that break the scheme's rules, in percent."""
    if not nlp.has_pipe("ner_crf"):
        return None
    pipe: Any = nlp.get_pipe("ner_crf")
    found = pipe.predict([Doc(nlp.vocab, words=[token.text for token in eg.reference]) for eg in examples])
    legal = pipe.tag_scheme.is_legal(found.tag_ids, found.lengths, pipe.labels)
    return 100 * float(1 - numpy.mean(legal))


def read_finished(path: Path) -> list[dict[str, Any]]:
    """Read the runs that are done."""
    return [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()] if path.exists() else []


def print_table(runs: list[dict[str, Any]]) -> None:
    """Print means over seeds, with the standard deviation of F."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for finished in runs:
        size = f", {finished['size']} sentences" if finished.get("size") else ""
        groups.setdefault((finished["corpus"] + size, finished["system"]), []).append(finished)
    rows = []
    for (corpus, system), group in groups.items():
        tests = [run["test"]["f"] for run in group]
        spread = f"{stdev(tests):.1f}" if len(tests) > 1 else ""
        numbers = [mean(run["test"][key] for run in group) for key in "prf"]
        dev = mean(run["dev"]["f"] for run in group)
        illegal = "" if group[0]["illegal"] is None else f"{mean(run['illegal'] for run in group):.1f}"
        keys = ("train_seconds", "train_words_per_second", "words_per_second", "model_mib")
        seconds, train_speed, speed, size = (mean(run.get(key, 0) for run in group) for key in keys)
        tail = (f"{dev:.1f}", illegal, f"{seconds:.0f}", f"{train_speed:,.0f}", f"{speed:,.0f}", f"{size:.1f}")
        rows.append((corpus, system, str(len(group)), *(f"{number:.1f}" for number in numbers), spread, *tail))
    measures = ("P", "R", "F", "+-", "dev F", "illegal", "train s", "train w/s", "w/s", "MiB")
    header = ("corpus", "system", "seeds", *measures)
    wasabi.msg.table(rows, header=header, divider=True, aligns=("l", "l", *"r" * len(measures), "r"))


def main(
    corpus: list[Path] = typer.Option(..., help="Folders of corpora"),
    system: list[str] = typer.Option(["default"], help="Systems, see SYSTEMS"),
    seeds: int = typer.Option(3, min=1, help="Seeds 0 to n-1"),
    lang: str = typer.Option("en", help="Language of the corpora"),
    size: list[int] = typer.Option([0], help="Numbers of training sentences; 0 for all"),
    vectors: str | None = typer.Option(None, help="Pipeline with word vectors"),
    transformer: str | None = typer.Option(None, help="Pretrained transformer"),
    override: list[str] = typer.Option([], help="Changes to the configs of all systems, as training.max_steps=100"),
    output: Path = typer.Option(Path("bench/accuracy.jsonl"), help="Finished runs, a JSON object a line"),
) -> None:
    """Run what is not finished yet and print the table of all that was asked for."""
    torch.set_num_threads(1)
    overrides = {name: json.loads(value) for name, value in (change.split("=", 1) for change in override)}
    tasks = [
        (name, Task(folder, lang, seed, n_sentences, vectors, transformer))
        for folder in corpus
        for name in system
        for n_sentences in size
        for seed in range(seeds)
    ]
    done = read_finished(output)
    asked = []
    for i, (name, task) in enumerate(tasks, 1):
        key = {"corpus": task.folder.name, "system": name, "seed": task.seed, "size": task.size}
        key |= {"vectors": vectors and Path(vectors).name, "transformer": transformer and Path(transformer).name}
        key["overrides"] = overrides
        finished = next((run for run in done if all(run.get(name) == value for name, value in key.items())), None)
        if finished is None:
            wasabi.msg.info(f"{i}/{len(tasks)}: {task.folder.name}, {name}, seed {task.seed}")
            finished = {**key, **run(name, task, overrides)}
            with output.open("a", encoding="utf8") as file:
                file.write(json.dumps(finished) + "\n")
        asked.append(finished)
    print_table(asked)


if __name__ == "__main__":
    typer.run(main)
