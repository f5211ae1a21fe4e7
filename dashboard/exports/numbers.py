"""The numbers of a figure as CSV: every point that is drawn, unrounded."""

from typing import Any

from headcount.api.formats import to_csv
from headcount.dashboard.exports.marks import Axis, Marks, Series, Value


def figure_csv(marks: Marks) -> str:
    """One row a point: series, what it is where it is not the series' own (a seed), x, y, ends of its bar.

    Along an axis whose ticks have names x and y are those names; cells of a map are rows of series `cell`.
    """
    rows: list[dict[str, Any]] = []
    if marks.field:
        for i, row in enumerate(marks.field.rows):
            for j, value in enumerate(row):
                if value is not None:
                    rows.append(_row("cell", _name(marks.x, j), _name(marks.y, i)) | {"value": value})
    for series in marks.series:
        if not (series.kind == "text" or series.is_key or series.in_inset):
            rows += _points(marks, series)
    columns = [name for name in _COLUMNS if any(row.get(name) is not None for row in rows)]
    return to_csv([{name: row.get(name) for name in columns} for row in rows])


_COLUMNS = ("series", "what", "x", "x_low", "x_high", "y", "y_low", "y_high", "value")


def _name(axis: Axis, place: int) -> Value:
    return axis.categories[place] if axis.categories else axis.label(float(place))


def _row(name: str, x: Value, y: Value) -> dict[str, Any]:
    return {"series": name, "x": x, "y": y}


def _points(marks: Marks, series: Series) -> list[dict[str, Any]]:
    rows = []
    for i, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
        if x is None or y is None:
            continue
        row = _row(series.name, marks.x.label(x), marks.y.label(y)) | {"what": series.what or None}
        if series.base is not None and not isinstance(x, str):
            row |= {"x": None, "x_low": series.base[i], "x_high": series.base[i] + x}
        for letter, value, bar in (("x", x, series.x_bar), ("y", y, series.y_bar)):
            if bar and not isinstance(value, str) and (bar[0][i] or bar[1][i]):
                row |= {f"{letter}_low": value - bar[0][i], f"{letter}_high": value + bar[1][i]}
        rows.append(row)
    return rows
