"""Results as text: JSON and CSV in full precision for machines, Markdown and LaTeX rounded for people."""

import csv
import io
import json
import math
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any

from headcount.api.columns import (
    DIGITS,
    ReadableTable,
    named_records,
    readable,
    readable_named,
    readable_reference,
    records,
)
from headcount.api.results import AblationTable, NamedTable

MEDIA_TYPES = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "tex": "application/x-tex; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}
"""The formats of a table, by suffix."""


def render(table: AblationTable, form: str, digits: int = DIGITS) -> str:
    """The table as `json`, `csv`, `md` or `tex`; `digits` are the decimals of Markdown and LaTeX."""
    return _WRITERS[form](table, digits)


def render_named(table: NamedTable, form: str, digits: int = DIGITS) -> str:
    """A named table as `json`, `csv`, `md` or `tex`."""
    if form == "json":
        return to_json(table) + "\n"
    if form == "csv":
        return to_csv(named_records(table))
    return (to_markdown if form == "md" else to_latex)(readable_named(table, digits))


def plain(value: Any) -> Any:
    """A result as dictionaries, lists and JSON's scalars; a number that is not finite becomes None."""
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.isoformat() if isinstance(value, datetime) else value


def to_json(value: Any) -> str:
    """A result as JSON: strictly JSON, since NaN and infinity are null."""
    return json.dumps(plain(value), ensure_ascii=False, allow_nan=False)


def to_csv(rows: list[dict[str, Any]]) -> str:
    """Flat rows as CSV with a line of names. None is empty, a tuple its items between spaces."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if rows:
        writer.writerow([_csv_field(name) for name in rows[0]])
        writer.writerows([[_csv_field(value) for value in row.values()] for row in rows])
    return out.getvalue()


def _csv_field(value: Any) -> Any:
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        value = " ".join(str(plain(item)) for item in value)
    if not isinstance(value, str):
        value = str(plain(value))
    text = value.replace("\r", " ")  # the csv module leaves it unquoted, and readers end the line there
    formula = text.lstrip(" ").startswith(("=", "+", "-", "@", "\t"))
    return "'" + text if formula else text  # a spreadsheet would run it


def to_markdown(table: ReadableTable) -> str:
    """A table for people as a Markdown table under its title, with its caption."""
    rules = ["---:" if numeric else ":---" for numeric in table.numeric]
    lines = [
        f"**{_markdown_text(table.title)}**",
        "",
        *(
            f"| {' | '.join(cells)} |"
            for cells in (
                map(_markdown_text, table.headings),
                rules,
                *(map(_markdown_text, row) for row in table.rows),
            )
        ),
        "",
        _markdown_text(table.caption),
        "",
    ]
    return "\n".join(lines)


def _markdown_text(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|#~$])", r"\\\1", " ".join(text.split()))


def to_latex(table: ReadableTable) -> str:
    """A table for people as a LaTeX table; needs the package booktabs."""
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_latex_text(f'{table.title}. {table.caption}')}}}",
        rf"\begin{{tabular}}{{{''.join('r' if numeric else 'l' for numeric in table.numeric)}}}",
        r"\toprule",
        " & ".join(map(_latex_text, table.headings)) + r" \\",
        r"\midrule",
        *(" & ".join(map(_latex_text, row)) + r" \\" for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
        "",
    ]
    return "\n".join(lines)


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "—": "---",
    **{character: "\\" + character for character in "$%&#_{}"},
}


def _latex_text(text: str) -> str:
    escaped = "".join(_LATEX.get(c, c) for c in " ".join(text.split()))
    # a sign before a digit is a minus or plus, not a hyphen; `{[}` after \\ would be read as its argument
    signed = (
        re.sub(r"([+-]\d[\d.]*)", r"$\1$", escaped) if re.fullmatch(r"[\[\]+\-\d., ]+", text) else escaped
    )
    return "{[}" + signed[1:] if signed.startswith("[") else signed


def _for_people(table: AblationTable, digits: int) -> list[ReadableTable]:
    found = [readable(table, digits)]
    return [*found, readable_reference(table)] if table.reference else found


_WRITERS: dict[str, Callable[[AblationTable, int], str]] = {
    "json": lambda table, digits: to_json(table) + "\n",
    "csv": lambda table, digits: to_csv(records(table)),
    "md": lambda table, digits: "\n".join(map(to_markdown, _for_people(table, digits))),
    "tex": lambda table, digits: "\n".join(map(to_latex, _for_people(table, digits))),
}
