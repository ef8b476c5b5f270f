"""Train systems on corpora with several seeds and compare their test scores.

Each training is what `spacy train` does with configs/ner.cfg and a system's changes to it; the best model on dev is
tested once. Finished runs are kept in a JSON lines file and not run again, so a stopped comparison goes on where it
was. A corpus is a folder with tagged files train, dev and test (.conll or .iob).

illegal: share of the test sentences, in percent, whose best tag path breaks the rules of the scheme before it is
    repaired. A constrained CRF has none.
"""

import json
import tempfile
import time
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
CONFIG = REPOSITORY / "configs" / "ner.cfg"
SPACY = "spacy-ner"
MODEL = "components.ner_crf.model"
SYSTEMS: dict[str, dict[str, Any]] = {
    "default": {},
    "softmax": {f"{MODEL}.crf": False},
    "unconstrained": {f"{MODEL}.constrained": False},
    "BIO": {"components.ner_crf.tag_scheme": "BIO"},
    "bfloat16": {f"{MODEL}.mixed_precision": True},
    # Where the default came from: spaCy's own embedding as it is, 96 wide.
    "plain": {
        f"{MODEL}.tok2vec.width": 96,
        f"{MODEL}.tok2vec.char_filters": 0,
        f"{MODEL}.tok2vec.min_count": 0,
        f"{MODEL}.tok2vec.unseen_rate": 0.0,
    },
    SPACY: {},
}
SPLITS = ("train", "dev", "test")


def convert(folder: Path, lang: str, out: Path) -> None:
    """Write the splits of a corpus as spaCy's binary files."""
    nlp = spacy.blank(lang)
    for split in SPLITS:
        path = next(path for path in (folder / f"{split}.conll", folder / f"{split}.iob") if path.exists())
        DocBin(docs=read_docs(path, nlp)).to_disk(out / f"{split}.spacy")


def load_config(system: str, lang: str, overrides: dict[str, Any]) -> Config:
    """Make the training config of a system."""
    if system != SPACY:
        changes = {**SYSTEMS[system], "nlp.lang": lang, **overrides}
        return util.load_config(CONFIG, overrides=changes, interpolate=False)
    config = init_config(lang=lang, pipeline=["ner"], optimize="efficiency", silent=True)
    return Config().from_str(config.to_str(), overrides=overrides, interpolate=False)


def run(system: str, folder: Path, lang: str, seed: int) -> dict[str, Any]:
    """Train one system and test it."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name)
        convert(folder, lang, out)
        (out / "model").mkdir()
        paths = {f"paths.{split}": str(out / f"{split}.spacy") for split in ("train", "dev")}
        start = time.perf_counter()
        nlp = init_nlp(load_config(system, lang, {**paths, "system.seed": seed}))
        with (out / "log.txt").open("w", encoding="utf8") as log:
            train(nlp, out / "model", stdout=log, stderr=log)
        seconds = time.perf_counter() - start
        best = out / "model" / "model-best"
        size = sum(path.stat().st_size for path in best.rglob("*") if path.is_file()) / 2**20
        return {"train_seconds": seconds, "model_mib": size, **test(spacy.load(best), out)}


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
    rows = []
    for corpus, system in dict.fromkeys((run["corpus"], run["system"]) for run in runs):
        group = [run for run in runs if (run["corpus"], run["system"]) == (corpus, system)]
        tests = [run["test"]["f"] for run in group]
        spread = f"{stdev(tests):.1f}" if len(tests) > 1 else ""
        numbers = [mean(run["test"][key] for run in group) for key in "prf"]
        dev = mean(run["dev"]["f"] for run in group)
        illegal = "" if group[0]["illegal"] is None else f"{mean(run['illegal'] for run in group):.1f}"
        seconds, size = (mean(run[key] for run in group) for key in ("train_seconds", "model_mib"))
        tail = (f"{dev:.1f}", illegal, f"{seconds:.0f}", f"{size:.1f}")
        rows.append((corpus, system, str(len(group)), *(f"{number:.1f}" for number in numbers), spread, *tail))
    header = ("corpus", "system", "seeds", "P", "R", "F", "+-", "dev F", "illegal", "train s", "MiB")
    wasabi.msg.table(rows, header=header, divider=True, aligns=("l", "l", *"rrrrrrrrr"))


def main(
    corpus: list[Path] = typer.Option(..., help="Folders of corpora"),
    system: list[str] = typer.Option(["default"], help="Systems, see SYSTEMS"),
    seeds: int = typer.Option(3, min=1, help="Seeds 0 to n-1"),
    lang: str = typer.Option("en", help="Language of the corpora"),
    output: Path = typer.Option(Path("bench/accuracy.jsonl"), help="Finished runs, a JSON object a line"),
) -> None:
    """Run what is not finished yet and print the table of all that was asked for."""
    torch.set_num_threads(1)
    wanted = [(folder, name, seed) for folder in corpus for name in system for seed in range(seeds)]
    done = read_finished(output)
    for i, (folder, name, seed) in enumerate(wanted, 1):
        key = {"corpus": folder.name, "system": name, "seed": seed}
        if any(key.items() <= run.items() for run in done):
            continue
        wasabi.msg.info(f"{i}/{len(wanted)}: {folder.name}, {name}, seed {seed}")
        done.append({**key, **run(name, folder, lang, seed)})
        with output.open("a", encoding="utf8") as file:
            file.write(json.dumps(done[-1]) + "\n")
    asked = {(folder.name, name, seed) for folder, name, seed in wanted}
    print_table([run for run in done if (run["corpus"], run["system"], run["seed"]) in asked])


if __name__ == "__main__":
    typer.run(main)
