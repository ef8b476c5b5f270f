"""Command `crf calibrate`: make the probabilities of a trained pipeline mean what they say."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from spacy.cli._util import Arg, Opt
from wasabi.printer import Printer

from ..errors import Errors
from .pipelines import load_examples, load_pipeline, refuse_to_overwrite

if TYPE_CHECKING:  # these load slowly, and spaCy imports this module for each of its commands
    from ..report.calibration import Calibration, Reliability
    from ..scaling import Scaling

_LEAST_ENTITIES = 30
_BAR_WIDTH = 30


@dataclass(frozen=True)
class CalibrationResult:
    """What was fitted, and what it does to each label.

    total (Calibration): For all entities.
    labels (tuple[str, ...]): The labels of the recognizer.
    by_label (dict): For each label, the reliability before and after.
    """

    total: "Calibration"
    labels: tuple[str, ...]
    by_label: "dict[str, tuple[Reliability, Reliability]]"


def calibrate_cli(
    model: str = Arg(..., help="Name or path of the trained pipeline"),
    data: Path = Arg(..., help="Annotated text it was not trained on: a .spacy file or a directory", exists=True),
    output: Path = Arg(..., help="Directory for the calibrated pipeline", file_okay=False),
    component: str | None = Opt(None, "--component", "-C", help="Name of the ner_crf component, if there are several"),
    n_bins: int = Opt(15, "--bins", help="Number of bins of equal size for the calibration error", min=2),
    batch_size: int = Opt(128, "--batch-size", help="Number of documents at a time", min=1),
    gpu_id: int = Opt(-1, "--gpu-id", "-g", help="GPU to use, -1 for none"),
    force: bool = Opt(False, "--force", "-F", help="Write into a directory that exists, even that of the model"),
) -> None:
    """Fit a temperature and biases to development data: of the entities with probability 0.8 eight in ten are right.

    All scores of the model are divided by the temperature before probabilities are computed, and a bias for each label
    is added to the log odds of its entities. The best path stays the same; what is chosen by a threshold on
    probabilities does not. A model that is calibrated already is left as it is.
    """
    msg = Printer()
    try:
        result = calibrate(
            model,
            data,
            output,
            component=component,
            n_bins=n_bins,
            batch_size=batch_size,
            gpu_id=gpu_id,
            force=force,
        )
    except (ValueError, OSError) as error:
        msg.fail("The pipeline could not be calibrated", str(error))
        raise typer.Exit(1) from error
    _print_result(result, output, msg)


def calibrate(
    model: str,
    data: Path,
    output: Path,
    *,
    component: str | None = None,
    n_bins: int = 15,
    batch_size: int = 128,
    gpu_id: int = -1,
    force: bool = False,
) -> CalibrationResult:
    """Fit a temperature and biases of labels to annotated text and store the pipeline with it.

    model (str): Name or path of the trained pipeline.
    data (Path): Annotated text that it was not trained on: a .spacy file, or a directory of them.
    output (Path): Directory for the calibrated pipeline.
    component (str | None): Name of the recognizer, if there are several.
    n_bins (int): Number of bins of equal size for the calibration error.
    batch_size (int): Number of documents at a time.
    gpu_id (int): The GPU, -1 for none.
    force (bool): Write into a directory that exists.
    RETURNS (CalibrationResult): What was fitted and what it does.
    RAISES (ValueError): CRF470 to CRF472 if the component, the output or the data is not as it should be.
    """
    import numpy

    from ..report.calibration import fit_scaling, measure_by_label
    from ..report.scored import check_entities, find_recognizer, read_scored_docs, rescore, score_examples
    from ..scaling import Scaling

    refuse_to_overwrite(output, force)
    nlp = load_pipeline(model, gpu_id)
    _, pipe = find_recognizer(nlp, component)
    examples = load_examples(nlp, data)
    batches = list(score_examples(nlp, examples, component=component, batch_size=batch_size))
    docs = [doc for scored in batches for doc in read_scored_docs(scored, pipe.labels)]
    _, is_right, labels = check_entities(docs)
    if len(is_right) < _LEAST_ENTITIES:
        raise ValueError(Errors.CRF472.format(n_entities=len(is_right), path=data, least=_LEAST_ENTITIES))
    is_known = numpy.array(
        [doc.is_known(ent.start, ent.end) for doc in docs for ent in doc.predicted if ent.prob is not None]
    )

    present = pipe.scaling
    ids = numpy.array([pipe.labels.index(label) for label in labels])

    def score(scaling: Scaling) -> "numpy.ndarray":
        return rescore(batches, scaling)[is_known]

    total = fit_scaling(
        lambda temperature: score(Scaling(temperature)), ids, is_right, len(pipe.labels), present, n_bins
    )
    before = measure_by_label(score(present), is_right, labels, n_bins)
    after = measure_by_label(score(total.scaling), is_right, labels, n_bins)
    pipe.cfg["temperature"] = total.scaling.temperature
    pipe.cfg["label_biases"] = total.scaling.by_label(pipe.labels)
    nlp.to_disk(output)
    return CalibrationResult(total, pipe.labels, {label: (before[label], after[label]) for label in before})


def _print_result(result: CalibrationResult, output: Path, msg: Printer) -> None:
    total = result.total
    rows = [_make_row("all", total.before, total.after)]
    rows += [_make_row(label, before, after) for label, (before, after) in result.by_label.items()]
    header = ("", "Entities", "ECE before", "after", "Brier before", "after", "Log loss before", "after")
    msg.table(rows, header=header, divider=True, aligns=("l", *"rrrrrrr"))
    _print_diagram("Reliability before", total.before, msg)
    if total.helps:
        _print_diagram("Reliability after", total.after, msg)
        msg.good(f"Fitted: {_describe(total.scaling, result.labels)}. The calibrated pipeline is in {output}")
    else:
        msg.good(
            f"The model is calibrated already: {_describe(total.scaling, result.labels)}, as before",
            f"The best on these data ({_describe(total.fitted, result.labels)}) is no better than chance explains, or "
            f"makes the calibration error larger. The pipeline is in {output}, unchanged.",
        )


def _describe(scaling: "Scaling", labels: tuple[str, ...]) -> str:
    texts = [f"{label} {bias:+.2f}" for label, bias in scaling.by_label(labels).items()]
    return "; biases ".join([f"temperature {scaling.temperature:.3f}", *filter(None, [", ".join(texts)])])


def _make_row(name: str, before: "Reliability", after: "Reliability") -> tuple[str, ...]:
    figures = (before.ece, after.ece, before.brier, after.brier, before.log_loss, after.log_loss)
    return (name, f"{before.n_entities:,}", *(f"{figure:.4f}" for figure in figures))


def _print_diagram(title: str, reliability: "Reliability", msg: Printer) -> None:
    msg.divider(title)
    msg.text("Of the entities with about this probability (|), so many are right (#):")
    for part in reliability.bins:
        bar = list("#" * round(part.share_right * _BAR_WIDTH) + " " * _BAR_WIDTH)[: _BAR_WIDTH + 1]
        bar[round(part.prob * _BAR_WIDTH)] = "|"
        msg.text(
            f"{part.prob:5.2f}  {''.join(bar).ljust(_BAR_WIDTH + 1)}  {part.share_right:4.2f}  ({part.n_entities})"
        )
