"""Train on annotation of which half is unknown, and compare with all of it and with half that is read as complete.

full: all of the annotation.
half the tags: each token's tag is unknown with a probability of one half; the others are known as single tags.
half the entities: each entity is unknown with a probability of one half, as missing tokens of the Doc.
half, read as complete: the same entities are gone, and their tokens are said to be outside of entities.

Only the training data is changed, and every training has the same number of steps. Complete development data helps most
where the training data misleads: it picks a model from before the training data was learnt by heart, which nobody could
do whose development data misleads as well. So the model of the last step is scored, too.
Finished runs are kept in a JSON lines file and not run again.
"""

import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import spacy
import torch
import typer
import wasabi
from accuracy import Task, convert, print_table, read_finished, test, train_and_test
from spacy.tokens import Doc, DocBin

from spacy_bilstm_crf.tag_scheme import TagScheme
from spacy_bilstm_crf.types import TAG_SCHEME_KEY, TAGS_KEY

SCHEME = TagScheme("BIOES")


def keep_all(doc: Doc, chance: random.Random) -> None:
    """Leave the annotation as it is."""


def hide_tags(doc: Doc, chance: random.Random) -> None:
    """Make each tag unknown with a probability of one half."""
    tags = SCHEME.spans_to_tags([(ent.start, ent.end, ent.label_) for ent in doc.ents], len(doc))
    doc.user_data[TAGS_KEY] = [None if chance.random() < 0.5 else tag for tag in tags]
    doc.user_data[TAG_SCHEME_KEY] = SCHEME.name
    doc.set_ents([], default="missing")


def hide_entities(doc: Doc, chance: random.Random) -> None:
    """Make each entity unknown with a probability of one half."""
    hidden = [ent for ent in doc.ents if chance.random() < 0.5]
    doc.set_ents([ent for ent in doc.ents if ent not in hidden], missing=hidden)


def drop_entities(doc: Doc, chance: random.Random) -> None:
    """Take each entity away with a probability of one half."""
    doc.set_ents([ent for ent in doc.ents if chance.random() >= 0.5])


SYSTEMS: dict[str, Callable[[Doc, random.Random], None]] = {
    "full": keep_all,
    "half the tags": hide_tags,
    "half the entities": hide_entities,
    "half, read as complete": drop_entities,
}


def change(path: Path, hide: Callable[[Doc, random.Random], None], seed: int) -> None:
    """Change the annotation of a corpus in place."""
    chance = random.Random(seed)
    docs = list(DocBin().from_disk(path).get_docs(spacy.blank("en").vocab))
    for doc in docs:
        hide(doc, chance)
    DocBin(docs=docs, store_user_data=True).to_disk(path)


def run(system: str, folder: Path, seed: int, max_steps: int, vectors: str | None) -> dict[str, Any]:
    """Train with one kind of annotation and test."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name)
        convert(folder, "en", out)
        change(out / "train.spacy", SYSTEMS[system], seed)
        task = Task(folder, seed=seed, vectors=vectors)
        result = train_and_test("default", task, out, {"training.max_steps": max_steps, "training.patience": 0})
        return {**result, "last": test(spacy.load(out / "model" / "model-last"), out)["test"]["f"]}


def main(
    corpus: Path = typer.Option(Path("../shared/data/ncbi_disease"), help="Folder of the corpus"),
    system: list[str] = typer.Option(list(SYSTEMS), help="Kinds of annotation, see above"),
    seeds: int = typer.Option(1, min=1, help="Seeds 0 to n-1"),
    max_steps: int = typer.Option(4000, min=1, help="Steps of each training"),
    vectors: str | None = typer.Option(None, help="Pipeline with word vectors"),
    output: Path = typer.Option(Path("bench/partial.jsonl"), help="Finished runs, a JSON object a line"),
) -> None:
    """Run what is not finished yet and print the table of all that was asked for."""
    torch.set_num_threads(1)
    done = read_finished(output)
    keys = [
        {"corpus": corpus.name, "system": name, "seed": seed, "max_steps": max_steps, "vectors": vectors}
        for name in system
        for seed in range(seeds)
    ]
    for i, key in enumerate(keys, 1):
        if any(key.items() <= run.items() for run in done):
            continue
        wasabi.msg.info(f"{i}/{len(keys)}: {key['corpus']}, {key['system']}, seed {key['seed']}")
        done.append({**key, **run(key["system"], corpus, key["seed"], max_steps, vectors)})
        with output.open("a", encoding="utf8") as file:
            file.write(json.dumps(done[-1]) + "\n")
    asked = [run for run in done if any(key.items() <= run.items() for key in keys)]
    print_table(asked)
    rows = [(name, f"{mean(run['last'] for run in asked if run['system'] == name):.1f}") for name in system]
    wasabi.msg.table(rows, header=("test F of the model of the last step", ""), divider=True, aligns=("l", "r"))


if __name__ == "__main__":
    typer.run(main)
