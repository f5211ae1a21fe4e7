"""A figure as pgfplots and its table as booktabs, to stand in a paper in the paper's own type."""

from collections.abc import Iterator

from headcount.api.columns import ReadableTable
from headcount.api.formats import to_latex
from headcount.dashboard.exports.marks import Axis, Field, Marks, Series
from headcount.dashboard.figures.table import FigureTable

SYMBOLS = {
    "circle": "*",
    "circle-open": "o",
    "square": "square*",
    "square-open": "square",
    "diamond": "diamond*",
    "diamond-cross-open": "diamond",
    "triangle-up": "triangle*",
    "triangle-down": "triangle*",
    "cross": "+",
    "pentagon": "pentagon*",
    "star": "star",
    "x": "x",
    "x-thin-open": "x",
    "line-ew-open": "-",
}
DASHES = {"solid": "solid", "dot": "dotted", "dash": "dashed"}

_PLAIN = {
    "−": "-",
    "\u00a0": " ",
    "·": ",",
    "★": "*",
    "Δ": "delta",
    "₂": "2",
    "±": "+/-",
    "…": "...",
    "○": "running:",
    "▲": "failed:",
    "’": "'",
}
_ESCAPED = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: "\\" + character for character in "$%&#_{}"},
}


def table_latex(title: str, table: FigureTable) -> str:
    """The data table of a figure; needs the package booktabs."""
    numeric = tuple(i >= table.numbers_from for i in range(len(table.columns)))
    rows = tuple(tuple(map(_plain, row)) for row in table.rows)
    columns = tuple(map(_plain, table.columns))
    return to_latex(ReadableTable(_plain(title), columns, rows, numeric, _plain(table.caption)))


def figure_latex(title: str, caption: str, marks: Marks) -> str:
    """The figure, every point in it; needs the package pgfplots, of version 1.16 or newer."""
    lines = [
        r"\begin{figure}",
        r"\centering",
        r"% \usepackage{pgfplots} \pgfplotsset{compat=1.16}",
        r"\begin{tikzpicture}",
        *_axis_begin(marks),
        *(_field(marks.field) if marks.field else ()),
    ]
    for series in marks.series:
        if not series.in_inset:
            lines += _series(series, marks)
    for box in marks.boxes:
        line = box["line"]
        lines.append(
            rf"\draw[{_color(line['color'])}, {DASHES.get(line['dash'], 'solid')}] "
            rf"(axis cs:{_number(box['x0'])},{_number(box['y0'])}) rectangle "
            rf"(axis cs:{_number(box['x1'])},{_number(box['y1'])});"
        )
    lines += [
        r"\end{axis}",
        r"\end{tikzpicture}",
        rf"\caption{{{_text(title)}. {_text(caption)}}}",
        r"\end{figure}",
        "",
    ]
    return "\n".join(lines)


def _axis_begin(marks: Marks) -> Iterator[str]:
    yield r"\begin{axis}["
    yield r"  width=0.95\linewidth, height=0.6\linewidth, axis lines=left, clip=true,"
    yield r"  legend style={draw=none, at={(0,1.02)}, anchor=south west, font=\footnotesize},"
    yield r"  legend columns=4,"
    for letter, axis in (("x", marks.x), ("y", marks.y)):
        yield from _axis(letter, axis)
    if marks.field:
        yield rf"  point meta min={_number(marks.field.low)}, point meta max={_number(marks.field.high)},"
        colors = " ".join(f"rgb255=({','.join(map(str, _rgb(color)))})" for color in marks.field.colors)
        yield rf"  colormap={{cells}}{{{colors}}}, colorbar={'true' if marks.field.scale else 'false'},"
        yield rf"  colorbar style={{ylabel={{{_text(marks.field.what)}}}}},"
    yield "]"


def _axis(letter: str, axis: Axis) -> Iterator[str]:
    yield f"  {letter}label={{{_text(axis.title)}}},"
    if axis.is_log:
        yield f"  {letter}mode=log,"
    elif axis.grid:
        yield f"  {letter}majorgrids, {letter}tick style={{draw=none}},"
    if axis.ticks is not None:
        yield f"  {letter}tick={{{','.join(_number(at) for at, _ in axis.ticks)}}},"
        yield f"  {letter}ticklabels={{{','.join('{' + _text(label) + '}' for _, label in axis.ticks)}}},"
    if axis.is_reversed:
        yield f"  {letter} dir=reverse,"
    if axis.low is not None and axis.high is not None:
        low, high = sorted((axis.low, axis.high))
        yield f"  {letter}min={_number(low)}, {letter}max={_number(high)},"


def _series(series: Series, marks: Marks) -> Iterator[str]:
    color = _color(series.colors[0])
    points = [
        (i, marks.x.place(x), marks.y.place(y))
        for i, (x, y) in enumerate(zip(series.x, series.y, strict=True))
    ]
    known = [(i, x, y) for i, x, y in points if x is not None and y is not None]
    if series.kind == "text":
        for i, x, y in known:
            ink = _color(series.colors[i if len(series.colors) > 1 else 0])
            words = r"\\".join(map(_text, series.texts[i].split("\n")))
            at = f"(axis cs:{_number(x)},{_number(y)})"
            yield rf"\node[{ink}, align=center, font=\scriptsize] at {at} {{{words}}};"
        return
    if series.kind == "bars":
        for i, x, y in known:
            base = series.base[i] if series.base is not None else 0.0
            shade = _color(series.colors[i if len(series.colors) > 1 else 0], "fill")
            yield (
                rf"\path[{shade}] (axis cs:{_number(base)},{_number(y - 0.33)}) "
                rf"rectangle (axis cs:{_number(base + x)},{_number(y + 0.33)});"
            )
        return
    look = [color, f"line width={0.3 * series.width:.2g}pt", f"opacity={series.opacity:g}"]
    look.append(DASHES.get(series.dash, "solid") if series.lines else "only marks")
    look.append(f"mark={SYMBOLS.get(series.symbols[0], '*')}" if series.markers else "mark=none")
    look.append("mark options={solid}" if series.markers else "")
    bars = {letter: bar for letter, bar in (("x", series.x_bar), ("y", series.y_bar)) if bar}
    if bars:
        look.append("error bars/.cd, " + ", ".join(f"{c} dir=both, {c} explicit" for c in bars))
    if not series.in_legend:
        look.insert(0, "forget plot")
    yield rf"\addplot[{', '.join(part for part in look if part)}] coordinates {{"
    yield from (f"  {_point(series, i, x, y)}" for i, x, y in known)
    yield "};"
    if series.in_legend:
        yield rf"\addlegendentry{{{_text(series.name)}}}"


def _point(series: Series, i: int, x: float, y: float) -> str:
    point = f"({_number(x)},{_number(y)})"
    if not (series.x_bar or series.y_bar):
        return point
    ends = []
    for sign, side in (("+", 1), ("-", 0)):
        lengths = [_number(bar[side][i]) if bar else "0" for bar in (series.x_bar, series.y_bar)]
        ends.append(f"{sign}= ({','.join(lengths)})")
    return f"{point} {' '.join(ends)}"


def _field(field: Field) -> Iterator[str]:
    yield (
        rf"\addplot[matrix plot*, point meta=explicit, mesh/cols={len(field.rows[0])}, forget plot, "
        r"unbounded coords=jump] coordinates {"
    )
    for i, row in enumerate(field.rows):
        yield "  " + " ".join(f"({j},{i}) [{'nan' if v is None else _number(v)}]" for j, v in enumerate(row))
    yield "};"


def _number(value: float) -> str:
    return f"{value:.7g}"


def _color(color: str, name: str = "") -> str:
    red, green, blue = _rgb(color)
    return f"{name or 'color'}={{rgb,255:red,{red};green,{green};blue,{blue}}}"


def _rgb(color: str) -> tuple[int, int, int]:
    if color.startswith("rgb("):
        red, green, blue = (round(float(part)) for part in color[4:-1].split(","))
        return red, green, blue
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _plain(text: str) -> str:
    return "".join(_PLAIN.get(character, character) for character in text)


def _text(text: str) -> str:
    return "".join(_ESCAPED.get(character, character) for character in _plain(text))
