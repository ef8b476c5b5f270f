"""Small corpora, and what a run has written."""

import json
import random

from spacy.tokens import DocBin
from tiny_pipelines import SENTENCES

WORDS = [word for text, _ in SENTENCES for word in text.split()] + ["Zoë", "Quux", "naïve", "😀", "1999"]


def make_lines(n, *, seed=0):
    """Lines of 1 to 9 words."""
    source = random.Random(seed)
    return [" ".join(source.choices(WORDS, k=source.randint(1, 9))) for _ in range(n)]


def write_lines(path, lines):
    """A text file, a line each."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf8")
    return str(path)


def write_jsonl(path, values):
    """A JSONL file; strings are written as they are."""
    lines = [value if isinstance(value, str) else json.dumps(value) for value in values]
    return write_lines(path, lines)


def shard_paths(output):
    """The shards, in order."""
    return sorted(path for path in (output / "shards").iterdir() if not path.name.startswith("."))


def read_rows(output):
    """The rows of all shards, in order, whatever the format."""
    rows = []
    for path in shard_paths(output):
        if path.suffix == ".jsonl":
            rows += [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]
        else:
            import pyarrow.parquet

            rows += pyarrow.parquet.read_table(path).to_pylist()
    return rows


def read_docs(output, vocab):
    """The Docs of all shards, in order."""
    return [doc for path in shard_paths(output) for doc in DocBin().from_disk(path).get_docs(vocab)]


def read_errors(output):
    """The documents that could not be annotated."""
    return [json.loads(line) for line in (output / "errors.jsonl").read_text(encoding="utf8").splitlines()]


def read_manifest(output):
    """The manifest."""
    return json.loads((output / "manifest.json").read_text(encoding="utf8"))


def ent_rows(doc, prob_attr=None):
    """What the output should say of a Doc's entities."""
    return [
        {
            "start": ent.start_char,
            "end": ent.end_char,
            "token_start": ent.start,
            "token_end": ent.end,
            "text": ent.text,
            "label": ent.label_,
            "probability": ent._.get(prob_attr) if prob_attr else None,
        }
        for ent in doc.ents
    ]


def assert_same_entities(rows, docs):
    """Rows say what Docs do. Probabilities may differ a little with the batch."""
    expected = [ent_rows(doc, "prob") for doc in docs]
    found = [[{**ent, "probability": None} for ent in ents] for ents in rows]
    assert found == [[{**ent, "probability": None} for ent in ents] for ents in expected]
    pairs = zip(*([ent["probability"] for ents in both for ent in ents] for both in (rows, expected)), strict=True)
    assert all(abs(left - right) <= 1e-5 for left, right in pairs)
