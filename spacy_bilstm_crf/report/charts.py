"""Charts as SVG: Vega-Lite specifications, drawn when the page is written, so that it needs no script and no network.

Colours are the page's CSS variables, so that charts follow its light and dark mode. What a chart shows is also in a
table beside it.
"""

from collections.abc import Sequence
from typing import Any

from ..errors import Errors
from .calibration import Bin

_VEGA_LITE = "5.20"
# Stand-ins that Vega takes for colours, and what the page makes of them.
_INK, _FAINT, _ACCENT, _SECOND, _NONE = "#010203", "#040506", "#070809", "#0a0b0c", "#0d0e0f"
_VARIABLES = {_INK: "--ink", _FAINT: "--line", _ACCENT: "--accent", _SECOND: "--second", _NONE: "--paper"}
_WIDTH = 300
_SHARE: dict[str, Any] = {"scale": {"domain": [0, 1]}, "axis": {"tickCount": 5}}
_AXIS = {"labelColor": _INK, "titleColor": _INK, "domainColor": _FAINT, "tickColor": _FAINT, "gridColor": _FAINT}
_CONFIG = {
    "background": None,
    "aria": False,
    "font": "sans-serif",
    "view": {"stroke": None},
    "axis": {**_AXIS, "labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal", "labelLimit": 110},
    "legend": {"labelColor": _INK, "titleColor": _INK, "labelFontSize": 11, "orient": "top", "title": None},
    "text": {"color": _INK, "fontSize": 11},
}


def draw(spec: dict[str, Any]) -> str:
    """Draw a chart.

    spec (dict): A Vega-Lite specification.
    RETURNS (str): SVG.
    RAISES (ImportError): CRF477 if what draws is not installed.
    """
    try:
        import vl_convert
    except ImportError as error:
        raise ImportError(Errors.CRF477.format(package="vl-convert-python", error=error)) from error
    svg = vl_convert.vegalite_to_svg({**spec, "config": _CONFIG}, vl_version=_VEGA_LITE)
    for stand_in, variable in _VARIABLES.items():
        svg = svg.replace(stand_in, f"var({variable})")
    return str(svg)


def draw_reliability(bins: Sequence[Bin]) -> str:
    """Draw how many entities of each probability are right, and where they would be if it were exact.

    bins (Sequence[Bin]): The bins.
    RETURNS (str): SVG.
    """
    rows = [{"prob": part.prob, "right": part.share_right, "n": part.n_entities} for part in bins]
    x = {"field": "prob", "type": "quantitative", **_SHARE, "title": "Mean probability"}
    y = {"field": "right", "type": "quantitative", **_SHARE, "title": "Share that is right"}
    exact = {
        "data": {"values": [{"prob": 0, "right": 0}, {"prob": 1, "right": 1}]},
        "mark": {"type": "line", "color": _FAINT, "strokeDash": [4, 4]},
        "encoding": {"x": x, "y": y},
    }
    line = {"mark": {"type": "line", "color": _ACCENT, "point": {"color": _ACCENT, "size": 40}}}
    return draw(
        {
            "width": _WIDTH,
            "height": 240,
            "data": {"values": rows},
            "layer": [exact, {**line, "encoding": {"x": x, "y": y}}],
        }
    )


def draw_threshold(points: Sequence[tuple[float, float, float]]) -> str:
    """Draw precision and recall over the threshold.

    points (Sequence[tuple]): Threshold, precision and recall.
    RETURNS (str): SVG.
    """
    rows = [
        {"threshold": threshold, "value": value, "what": what}
        for threshold, precision, recall in points
        for what, value in (("Precision", precision), ("Recall", recall))
    ]
    color = {"field": "what", "scale": {"domain": ["Precision", "Recall"], "range": [_ACCENT, _SECOND]}, "title": None}
    dash = {"field": "what", "scale": {"domain": ["Precision", "Recall"], "range": [[1, 0], [6, 3]]}, "title": None}
    return draw(
        {
            "width": _WIDTH,
            "height": 220,
            "data": {"values": rows},
            "mark": {"type": "line"},
            "encoding": {
                "x": {"field": "threshold", "type": "quantitative", **_SHARE, "title": "Threshold"},
                "y": {"field": "value", "type": "quantitative", **_SHARE, "title": None},
                "color": {**color, "type": "nominal"},
                "strokeDash": {**dash, "type": "nominal"},
            },
        }
    )


def draw_precision_recall(points: Sequence[tuple[float, float, float]]) -> str:
    """Draw precision against recall as the threshold grows.

    points (Sequence[tuple]): Threshold, precision and recall.
    RETURNS (str): SVG.
    """
    rows = [{"threshold": t, "precision": p, "recall": r} for t, p, r in points]
    marked = [{**row, "text": f"{row['threshold']:.1f}"} for row in _spread_out(rows[::10])]
    x = {"field": "recall", "type": "quantitative", **_SHARE, "title": "Recall"}
    y = {"field": "precision", "type": "quantitative", **_SHARE, "title": "Precision"}
    at = {"x": x, "y": y}
    line = {"data": {"values": rows}, "mark": {"type": "line", "color": _ACCENT}}
    return draw(
        {
            "width": _WIDTH,
            "height": 240,
            "layer": [
                {**line, "encoding": {**at, "order": {"field": "threshold"}}},
                {
                    "data": {"values": marked},
                    "mark": {"type": "point", "color": _ACCENT, "filled": True},
                    "encoding": at,
                },
                {
                    "data": {"values": marked},
                    "mark": {"type": "text", "dy": 14, "dx": -6},
                    "encoding": {**at, "text": {"field": "text"}},
                },
            ],
        }
    )


def _spread_out(rows: Sequence[dict[str, float]]) -> list[dict[str, float]]:
    """Leave out points that lie so close to one another that what is written beside them could not be read."""
    kept: list[dict[str, float]] = []
    for row in reversed(rows):
        distances = [max(abs(row[key] - other[key]) for key in ("recall", "precision")) for other in kept]
        if row["recall"] > 0 and min(distances, default=1.0) > 0.05:
            kept.append(row)
    return kept


def draw_matrix(
    cells: Sequence[tuple[str, str, float, str]],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    row_title: str,
    column_title: str,
    step: int = 34,
) -> str:
    """Draw a heat map. Positive and negative values have colours of their own, their size is how strong these are.

    cells (Sequence[tuple]): Row, column, value and what is written into the cell.
    rows (Sequence[str]): The rows, in order.
    columns (Sequence[str]): The columns, in order.
    row_title (str): What the rows are.
    column_title (str): What the columns are.
    step (int): Size of a cell in pixels.
    RETURNS (str): SVG.
    """
    values = [{"row": r, "column": c, "size": abs(v), "sign": v >= 0, "text": text} for r, c, v, text in cells]
    largest = max((abs(value) for _, _, value, _ in cells), default=0.0) or 1.0
    at = {
        "y": {"field": "row", "type": "nominal", "sort": list(rows), "title": row_title},
        "x": {
            "field": "column",
            "type": "nominal",
            "sort": list(columns),
            "title": column_title,
            "axis": {"orient": "top", "labelAngle": -50},
        },
    }
    color = {"field": "sign", "type": "nominal", "scale": {"domain": [True, False], "range": [_ACCENT, _SECOND]}}
    strength = {"field": "size", "type": "quantitative", "scale": {"domain": [0, largest], "range": [0.0, 0.75]}}
    return draw(
        {
            "width": {"step": step},
            "height": {"step": max(18, step - 10)},
            "data": {"values": values},
            "layer": [
                {
                    "mark": {"type": "rect", "stroke": _FAINT, "strokeOpacity": 1, "strokeWidth": 0.5},
                    "encoding": {**at, "color": {**color, "legend": None}, "fillOpacity": {**strength, "legend": None}},
                },
                {"mark": {"type": "text", "fontSize": 10}, "encoding": {**at, "text": {"field": "text"}}},
            ],
        }
    )
