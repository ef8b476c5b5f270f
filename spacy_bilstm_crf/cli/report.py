"""Command `crf report`: what a trained pipeline gets wrong, on one page."""

from pathlib import Path

import typer
from spacy.cli._util import Arg, Opt
from wasabi.printer import Printer

from ..errors import Errors
from .pipelines import load_examples, load_pipeline, refuse_to_overwrite


def report_cli(
    model: str = Arg(..., help="Name or path of the trained pipeline"),
    data: Path = Arg(..., help="Annotated text it was not trained on: a .spacy file or a directory", exists=True),
    output: Path = Arg(..., help="The HTML file to write", dir_okay=False),
    component: str | None = Opt(None, "--component", "-C", help="Name of the ner_crf component, if there are several"),
    batch_size: int = Opt(128, "--batch-size", help="Number of documents at a time", min=1),
    gpu_id: int = Opt(-1, "--gpu-id", "-g", help="GPU to use, -1 for none"),
    force: bool = Opt(False, "--force", "-F", help="Overwrite the output"),
) -> None:
    """Write a page on what a pipeline gets wrong: scores, charts, and every error in its context.

    The page is one file that needs no network. Needs the extra "report".
    """
    msg = Printer()
    try:
        report(
            model,
            data,
            output,
            component=component,
            batch_size=batch_size,
            gpu_id=gpu_id,
            force=force,
            show_progress=True,
        )
    except (ValueError, OSError, ImportError) as error:
        msg.fail("The report could not be written", str(error))
        raise typer.Exit(1) from error
    msg.good(f"The report is in {output}")


def report(
    model: str,
    data: Path,
    output: Path,
    *,
    component: str | None = None,
    batch_size: int = 128,
    gpu_id: int = -1,
    force: bool = False,
    show_progress: bool = False,
) -> None:
    """Write a page on what a pipeline gets wrong.

    model (str): Name or path of the trained pipeline.
    data (Path): Annotated text that it was not trained on: a .spacy file, or a directory of them.
    output (Path): The HTML file to write.
    component (str | None): Name of the recognizer, if there are several.
    batch_size (int): Number of documents at a time.
    gpu_id (int): The GPU, -1 for none.
    force (bool): Overwrite the output.
    show_progress (bool): Show a progress bar.
    RAISES (ValueError): CRF470, CRF471 or CRF474 if the component, the output or the data is not as it should be.
    RAISES (ImportError): CRF477 if the extra is not installed.
    """
    from tqdm import tqdm

    from ..report.page import ReportData, read_transitions, write_report
    from ..report.scored import find_recognizer, read_scored_docs, score_examples

    refuse_to_overwrite(output, force)
    nlp = load_pipeline(model, gpu_id)
    _, pipe = find_recognizer(nlp, component)
    docs, transitions = [], None
    examples = load_examples(nlp, data)
    progress = tqdm(total=len(examples), unit=" docs", disable=None if show_progress else True)
    with progress:
        for scored in score_examples(nlp, examples, component=component, batch_size=batch_size):
            docs += read_scored_docs(scored, pipe.labels)
            if transitions is None:
                transitions = read_transitions(pipe, scored.batch.distribution)
            progress.update(len(scored.examples))
    if transitions is None:
        raise ValueError(Errors.CRF474.format(path=data))
    title = f"{nlp.meta['lang']}_{nlp.meta['name']} {nlp.meta['version']}"
    threshold = pipe.cfg["threshold"]
    write_report(
        ReportData(title, data.name, docs, pipe.labels, threshold, pipe.scaling, pipe.tags, transitions),
        output,
    )
