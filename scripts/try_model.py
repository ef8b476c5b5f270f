"""Print the test scores of an installed model and what it finds in a text."""

from pathlib import Path
from typing import Any

import spacy
import srsly
import typer
from spacy.tokens import Doc
from wasabi import msg


def main(
    package: str = typer.Argument(..., help="Name of the installed model package"),
    metrics: Path = typer.Argument(..., help="JSON file that `spacy evaluate` wrote", exists=True, dir_okay=False),
    text: str = typer.Argument(..., help="Text to try it on"),
) -> None:
    """Load the model by the name of its package, as a user of the package would."""
    nlp = spacy.load(package)
    msg.good(f"Loaded {package} {nlp.meta['version']} from {nlp.path}")
    msg.divider("Test scores")
    scores = srsly.read_json(metrics)
    # The file has either all scores or, with `--per-component`, those of each component.
    for name in nlp.pipe_names:
        scores.update(scores.pop(name, {}))
    print_scores(scores)
    msg.divider("An example")
    doc = nlp(text)
    if "token_oov_r" in scores:
        msg.text(" ".join(token.text for token in doc))
    print_entities(doc)


def print_scores(scores: dict[str, Any]) -> None:
    """Print precision, recall and F1, over all labels and for each of them.

    scores (dict[str, Any]): What `spacy evaluate` wrote.
    """
    overall = {name: scores[f"ents_{name}"] for name in ("p", "r", "f")}
    rows = [("all", overall), *sorted((scores["ents_per_type"] or {}).items())]
    if "token_oov_r" in scores:
        rows.insert(0, ("words", {name: scores[f"token_{name}"] for name in ("p", "r", "f")}))
    table = [(label, *(f"{100 * (values[name] or 0):.1f}" for name in ("p", "r", "f"))) for label, values in rows]
    msg.table(table, header=("", "P", "R", "F"), aligns=("l", "r", "r", "r"), divider=True)


def print_entities(doc: Doc) -> None:
    """Print a text with its entities in brackets.

    doc (Doc): A processed text.
    """
    text = doc.text
    for ent in reversed(doc.ents):
        text = f"{text[: ent.start_char]}[{ent.text} {ent.label_}]{text[ent.end_char :]}"
    msg.text(text)


if __name__ == "__main__":
    typer.run(main)
