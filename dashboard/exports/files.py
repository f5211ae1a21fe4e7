"""A figure of a page as a file, in any of the forms that the page offers."""

from headcount.api.results import QueryError
from headcount.dashboard.exports.drawing import Form, figure_file
from headcount.dashboard.exports.latex import figure_latex, table_latex
from headcount.dashboard.exports.marks import marks_of
from headcount.dashboard.exports.numbers import figure_csv
from headcount.dashboard.panel import Figure
from headcount.trainer.errors import nearest

DRAWN: tuple[Form, ...] = ("svg", "png", "pdf")
MEDIA_TYPES = {
    "svg": "image/svg+xml",
    "png": "image/png",
    "pdf": "application/pdf",
    "csv": "text/csv; charset=utf-8",
    "tex": "application/x-tex; charset=utf-8",
    "table.tex": "application/x-tex; charset=utf-8",
}
"""Form to what a browser is told of it; `tex` is the drawing, `table.tex` the data table."""


def file_of(figure: Figure, form: str) -> bytes:
    """The figure in a form. Raises `QueryError` for one that is none of `MEDIA_TYPES`."""
    for drawn in DRAWN:
        if form == drawn:
            return figure_file(marks_of(figure.drawn), drawn)
    if form == "csv":
        return figure_csv(marks_of(figure.drawn)).encode()
    if form == "tex":
        return figure_latex(figure.title, figure.caption, marks_of(figure.drawn)).encode()
    if form == "table.tex":
        return table_latex(figure.title, figure.table).encode()
    raise QueryError(f"a figure has no form {form!r}; {nearest(form, MEDIA_TYPES)}")
