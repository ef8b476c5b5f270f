"""Command `crf explain`: why a sentence is tagged as it is."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer
from spacy.cli._util import Arg, Opt
from wasabi.printer import Printer

from .pipelines import load_pipeline, refuse_to_overwrite

if TYPE_CHECKING:  # these load slowly, and spaCy imports this module for each of its commands
    from ..report.lattice import Explanation

_N_OTHERS = 3


def explain_cli(
    model: str = Arg(..., help="Name or path of the trained pipeline"),
    text: str = Arg(..., help="A sentence"),
    output: Path | None = Opt(None, "--output", "-o", help="HTML file to draw the lattice into", dir_okay=False),
    n_paths: int = Opt(4, "--paths", "-n", help="How many of the most probable paths to compare", min=1),
    component: str | None = Opt(None, "--component", "-C", help="Name of the ner_crf component, if there are several"),
    gpu_id: int = Opt(-1, "--gpu-id", "-g", help="GPU to use, -1 for none"),
    force: bool = Opt(False, "--force", "-F", help="Overwrite the output"),
) -> None:
    """Show what speaks for each tag of a sentence, and which tag paths come closest to the best one.

    Prints a table; with --output the lattice is drawn on a page that needs no network.
    """
    msg = Printer()
    try:
        explanation = explain(model, text, output, n_paths=n_paths, component=component, gpu_id=gpu_id, force=force)
    except (ValueError, OSError) as error:
        msg.fail("The sentence could not be explained", str(error))
        raise typer.Exit(1) from error
    _print_tokens(explanation, msg)
    _print_paths(explanation, msg)
    if output is not None:
        msg.good(f"The lattice is in {output}")


def explain(
    model: str,
    text: str,
    output: Path | None = None,
    *,
    n_paths: int = 4,
    component: str | None = None,
    gpu_id: int = -1,
    force: bool = False,
) -> "Explanation":
    """Find out why a sentence is tagged as it is, and draw the lattice if that is wanted.

    model (str): Name or path of the trained pipeline.
    text (str): A sentence.
    output (Path | None): HTML file to draw the lattice into.
    n_paths (int): How many of the most probable paths to compare.
    component (str | None): Name of the recognizer, if there are several.
    gpu_id (int): The GPU, -1 for none.
    force (bool): Overwrite the output.
    RETURNS (Explanation): Scores, probabilities and paths.
    RAISES (ValueError): CRF470, CRF471 or CRF475 if the component, the output or the text is not as it should be.
    """
    from ..report import lattice

    if output is not None:
        refuse_to_overwrite(output, force)
    nlp = load_pipeline(model, gpu_id)
    explanation = lattice.explain(nlp, text, component=component, n_paths=n_paths)
    if output is not None:
        title = f"{nlp.meta['lang']}_{nlp.meta['name']} {nlp.meta['version']}"
        lattice.write_lattice(explanation, title, output)
    return explanation


def _print_tokens(explanation: "Explanation", msg: Printer) -> None:
    rows = []
    best = explanation.tag_ids[0]
    for i, (word, tag) in enumerate(zip(explanation.words, best, strict=True)):
        move = "" if i == 0 else f"{explanation.moves[best[i - 1], tag]:.2f}"
        others = [other for other in (-explanation.marginals[i]).argsort().tolist() if other != tag][:_N_OTHERS]
        runners_up = "  ".join(f"{explanation.tags[other]} {explanation.marginals[i, other]:.3f}" for other in others)
        figures = (f"{explanation.marginals[i, tag]:.3f}", f"{explanation.emissions[i, tag]:.2f}", move)
        rows.append((word, explanation.tags[tag], *figures, runners_up))
    header = ("Token", "Best path", "P(tag)", "Emission", "Move", "Other tags")
    msg.table(rows, header=header, divider=True, aligns=("l", "l", "r", "r", "r", "l"))


def _print_paths(explanation: "Explanation", msg: Printer) -> None:
    rows = []
    for path in explanation.paths:
        entities = ", ".join(f"{ent.text} ({ent.label_})" for ent in path.ents) or "no entities"
        rows.append((f"{path.prob:.4f}", entities))
    msg.table(rows, header=("P(path)", "Entities"), divider=True)
