"""The report: one page that holds everything, for a person who decides what to fix in their data."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from ..pipeline.ner_crf import NERCRF
from ..probabilities import Distribution
from ..scaling import Scaling
from . import charts
from .calibration import Reliability, measure_auroc, measure_by_label, measure_reliability
from .mistakes import KINDS, LabelCounts, Mistake, count_confusion, count_labels, find_mistakes, trace_threshold
from .scored import ScoredDoc, check_entities

_NO_ENTITY = "no entity"
_CONTEXT = 60
_MAX_ENTITY = 200
# More tags than this are no longer read in a heat map.
_MAX_TAGS = 60
_KIND_TEXTS = {
    "boundary": "right label, but it begins or ends elsewhere",
    "label": "right place, but another label",
    "label and boundary": "overlaps a gold entity of another label, at another place",
    "missed": "a gold entity where nothing was predicted",
    "spurious": "predicted where no gold entity is",
}


@dataclass(frozen=True)
class ReportData:
    """What the page shows.

    title (str): Name and version of the pipeline.
    data (str): What it was tested on.
    docs (list[ScoredDoc]): The documents.
    labels (tuple[str, ...]): The labels of the recognizer.
    threshold (float): Its threshold.
    scaling (Scaling): What makes its probabilities.
    tags (list[str]): Its tags.
    transitions (ndarray): Learnt scores of moves between tags, start as an additional row, end as a column; NaN where
        a move is forbidden.
        (n_tags + 1, n_tags + 1) float32
    """

    title: str
    data: str
    docs: list[ScoredDoc]
    labels: tuple[str, ...]
    threshold: float
    scaling: Scaling
    tags: list[str]
    transitions: numpy.ndarray


def read_transitions(pipe: NERCRF, distribution: Distribution) -> numpy.ndarray:
    """Put the scores of all moves into one matrix.

    pipe (NERCRF): The recognizer.
    distribution (Distribution): What it says of any batch.
    RETURNS (ndarray): Row "start", then a row per tag; a column per tag, then column "end"; NaN where forbidden.
        (n_tags + 1, n_tags + 1) float32
    """
    scores = distribution.potentials
    n_tags = len(pipe.tags)
    matrix = numpy.full((n_tags + 1, n_tags + 1), numpy.nan, dtype="float32")
    parts = [
        numpy.asarray(_to_numpy(part))
        for part in (scores.start_transitions, scores.transitions, scores.end_transitions)
    ]
    matrix[0, :-1], matrix[1:, :-1], matrix[1:, -1] = parts
    if pipe.allowed_transitions is not None:
        moves, starts, ends = pipe.allowed_transitions
        matrix[0, :-1][~starts] = numpy.nan
        matrix[1:, :-1][~moves] = numpy.nan
        matrix[1:, -1][~ends] = numpy.nan
    return matrix


def _to_numpy(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else array


def write_report(data: ReportData, path: Path) -> None:
    """Write the page.

    data (ReportData): What it shows.
    path (Path): The HTML file.
    RAISES (ImportError): CRF477 if what draws the charts is not installed.
    """
    mistakes = find_mistakes(data.docs, data.threshold)
    by_label = count_labels(data.docs, mistakes, data.threshold)
    total = LabelCounts()
    for counts in by_label.values():
        total.add(counts)
    page = (
        _environment()
        .get_template("report.html")
        .render(
            title=data.title,
            data=data.data,
            threshold=data.threshold,
            temperature=data.scaling.temperature,
            biases=list(data.scaling.by_label(data.labels).items()),
            n_docs=len(data.docs),
            total=total,
            by_label=by_label,
            kinds=KINDS,
            kind_texts=_KIND_TEXTS,
            n_mistakes=len(mistakes),
            figures=list(_make_figures(data, mistakes, by_label)),
            labels=sorted({*by_label}),
            mistakes=_embed_json([_pack(mistake, data.docs[mistake.doc]) for mistake in mistakes]),
            **_calibration(data.docs),
        )
    )
    path.write_text(page, encoding="utf8")


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("spacy_bilstm_crf.report"),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _embed_json(value: Any) -> Markup:
    # Nothing in a text may end the script element that holds it.
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text.encode("utf8", "replace").decode("utf8"))


def _pack(mistake: Mistake, doc: ScoredDoc) -> dict[str, Any]:
    """Keep of an error what the page needs: both entities and the text around them, positions counted in that text."""
    spans = [span for span in (mistake.gold, mistake.predicted) if span is not None]
    first, last = min(span.start for span in spans), max(min(span.end, span.start + _MAX_ENTITY) for span in spans)
    start, end = max(0, first - _CONTEXT), min(len(doc.text), last + _CONTEXT)
    packed: dict[str, Any] = {"k": KINDS.index(mistake.kind), "d": mistake.doc + 1, "t": doc.text[start:end]}
    if mistake.gold:
        prob = None if mistake.gold_prob is None else round(mistake.gold_prob, 4)
        packed["g"] = [mistake.gold.start - start, min(mistake.gold.end, end) - start, mistake.gold.label, prob]
    if mistake.predicted:
        ent = mistake.predicted
        prob = None if ent.prob is None else round(ent.prob, 4)
        packed["p"] = [ent.start - start, min(ent.end, end) - start, ent.label, prob]
    return packed


def _calibration(docs: Sequence[ScoredDoc]) -> dict[str, Any]:
    probabilities, is_right, labels = check_entities(docs)
    return {
        "reliability": measure_reliability(probabilities, is_right),
        "reliability_by_label": measure_by_label(probabilities, is_right, labels),
        "auroc": measure_auroc(probabilities, is_right),
    }


@dataclass(frozen=True)
class Figure:
    """A chart, and the same as a table.

    name (str): Anchor on the page.
    title (str): Heading.
    text (str): What it shows and how it is read.
    svg (Markup): The chart.
    header (Sequence[str]): Names of the table's columns.
    rows (Sequence[Sequence[str]]): The table.
    """

    name: str
    title: str
    text: str
    svg: Markup
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def _make_figures(data: ReportData, mistakes: list[Mistake], by_label: dict[str, LabelCounts]) -> Iterable[Figure]:
    yield _kinds_figure(by_label)
    yield _confusion_figure(data, mistakes, by_label)
    yield _boundary_figure(mistakes)
    yield _reliability_figure(measure_reliability(*check_entities(data.docs)[:2]))
    yield from _threshold_figures(data.docs)
    if len(data.tags) <= _MAX_TAGS:
        yield _transition_figure(data)


def _kinds_figure(by_label: dict[str, LabelCounts]) -> Figure:
    cells = [
        (label, kind, float(n), str(n))
        for label, entry in by_label.items()
        for kind in KINDS
        if (n := entry.kinds[kind])
    ]
    rows = [[label, *(str(entry.kinds[kind]) for kind in KINDS)] for label, entry in by_label.items()]
    svg = charts.draw_matrix(cells, rows=list(by_label), columns=KINDS, row_title="Label", column_title="Kind", step=44)
    text = "What kinds of error each label has. Spurious ones count for the predicted label, others for the gold one."
    return Figure("kinds", "Kinds of error", text, Markup(svg), ["Label", *KINDS], rows)


def _confusion_figure(data: ReportData, mistakes: list[Mistake], by_label: dict[str, LabelCounts]) -> Figure:
    pairs = count_confusion(data.docs, mistakes, data.threshold)
    names = [*by_label, _NO_ENTITY]
    cells, rows = [], []
    for gold in names:
        numbers = [pairs["" if gold == _NO_ENTITY else gold, "" if label == _NO_ENTITY else label] for label in names]
        # Strength is the share of the row without what is right: errors are what is looked for.
        largest = max(sum(n for label, n in zip(names, numbers, strict=True) if label != gold), 1)
        for label, n in zip(names, numbers, strict=True):
            cells.append((gold, label, 0.0 if label == gold else n / largest, str(n) if n else ""))
        rows.append([gold, *map(str, numbers)])
    svg = charts.draw_matrix(cells, rows=names, columns=names, row_title="Gold", column_title="Predicted", step=44)
    text = "Which label was predicted for which. The strongest colour is where most of a row's errors go."
    return Figure("confusion", "Confusion of labels", text, Markup(svg), ["Gold", *names], rows)


def _boundary_figure(mistakes: list[Mistake]) -> Figure:
    shifts = ["too early", "right", "too late"]
    counts = {(start, end): 0 for start in shifts for end in shifts}
    for mistake in mistakes:
        if mistake.kind == "boundary" and mistake.gold and mistake.predicted:
            start = (mistake.predicted.start > mistake.gold.start) - (mistake.predicted.start < mistake.gold.start)
            end = (mistake.predicted.end > mistake.gold.end) - (mistake.predicted.end < mistake.gold.end)
            counts[shifts[start + 1], shifts[end + 1]] += 1
    cells = [(start, end, float(n), str(n) if n else "") for (start, end), n in counts.items()]
    svg = charts.draw_matrix(cells, rows=shifts, columns=shifts, row_title="Begins", column_title="Ends", step=70)
    rows = [[start, *(str(counts[start, end]) for end in shifts)] for start in shifts]
    text = "How predicted entities of the right label lie to the gold ones where the boundaries differ."
    return Figure(
        "boundaries", "Boundary errors", text, Markup(svg), ["Begins", *(f"ends {end}" for end in shifts)], rows
    )


def _reliability_figure(reliability: Reliability) -> Figure:
    rows = [[f"{part.prob:.3f}", f"{part.share_right:.3f}", str(part.n_entities)] for part in reliability.bins]
    text = (
        "Entities in groups of equal size, by probability. On the dashed line, of entities with probability 0.8 eight "
        "in ten are right. Points below it: the model is too sure; spacy crf calibrate corrects that."
    )
    svg = Markup(charts.draw_reliability(reliability.bins))
    return Figure("reliability", "Reliability", text, svg, ["Mean probability", "Share right", "Entities"], rows)


def _threshold_figures(docs: Sequence[ScoredDoc]) -> Iterable[Figure]:
    points = trace_threshold(docs)
    header = ["Threshold", "Precision", "Recall"]
    rows = [[f"{t:.2f}", f"{p:.3f}", f"{r:.3f}"] for t, p, r in points[::5]]
    text = "What is gained and lost if entities less probable than a threshold are dropped (setting threshold)."
    yield Figure(
        "threshold",
        "Precision and recall over the threshold",
        text,
        Markup(charts.draw_threshold(points)),
        header,
        rows,
    )
    text = "The same, precision against recall. The numbers are thresholds."
    svg = Markup(charts.draw_precision_recall(points))
    yield Figure("precision-recall", "Precision against recall", text, svg, header, rows)


def _transition_figure(data: ReportData) -> Figure:
    row_names, columns = ["start", *data.tags], [*data.tags, "end"]
    cells, rows = [], []
    for name, scores in zip(row_names, data.transitions.tolist(), strict=True):
        texts = ["✕" if math.isnan(score) else f"{round(score, 1) + 0.0:.1f}" for score in scores]
        if name == "start":
            texts[-1] = ""
        cells += [
            (name, column, 0.0 if math.isnan(score) else score, text)
            for column, score, text in zip(columns, scores, texts, strict=True)
        ]
        rows.append([name, *("forbidden" if text == "✕" else text for text in texts)])
    svg = charts.draw_matrix(cells, rows=row_names, columns=columns, row_title="From", column_title="To", step=34)
    text = "Learnt scores of moves, in nats: a colour each for positive and negative ones. ✕: forbidden by the scheme."
    return Figure("transitions", "Transitions", text, Markup(svg), ["From", *columns], rows)
