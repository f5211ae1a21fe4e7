"""Each format of the table against a file, and what must be escaped in each."""

import csv
import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.api.columns import ReadableTable, readable
from headcount.api.formats import render, to_csv, to_json, to_latex, to_markdown
from headcount.api.results import AblationTable, TableRow
from headcount.sweeps.statistics import PairedDelta

GOLDEN = Path(__file__).parent / "golden"

DELTA = PairedDelta(
    mean=-0.0123456789,
    se=0.001,
    df=2,
    t=-12.5,
    p=0.00634,
    low=-0.0166,
    high=-0.008,
    confidence=0.95,
    sd=0.0017,
    n=3,
    deltas=(-0.01, -0.013, -0.014),
    seeds=(0, 1, 2),
    without_treatment=(),
    without_control=(),
    correlation=0.75,
)

CONTROL = TableRow(
    cell=1,
    settings={"train.peak_lr": 1e-4},
    is_control=True,
    control=None,
    state="done",
    rank=None,
    n=3,
    mean=3.4,
    sd=0.25,
    se=0.125,
    seeds=(0, 1, 2),
    losses=(3.3, 3.4, 3.5),
    seeds_missing=(),
    seeds_diverged=(),
    seeds_failed=(),
    delta=None,
    parameters=1000,
    flops=2.5e12,
    note="",
)
TREATMENT = replace(
    CONTROL,
    cell=2,
    settings={"model.routing_heads": 8, "train.peak_lr": 1e-4},
    is_control=False,
    control=1,
    rank=1,
    mean=1 / 3,
    delta=DELTA,
)
DIVERGED = replace(
    TREATMENT,
    cell=3,
    settings={"model.routing_heads": 16, "train.peak_lr": 1e-4},
    state="diverged",
    rank=2,
    n=0,
    mean=None,
    sd=None,
    se=None,
    seeds=(0,),
    losses=(3.25,),
    seeds_missing=(2,),
    seeds_diverged=(1,),
    delta=None,
    note="1 of 3 diverged",
)
TABLE = AblationTable(
    sweep="100%_of_heads",
    version=7,
    axes={"model.routing_heads": (8, 16), "train.peak_lr": (1e-4,)},
    seeds=(0, 1, 2),
    analysis={},
    estimator="tail mean",
    test="paired t",
    confidence=0.95,
    rows=(CONTROL, TREATMENT, DIVERGED),
)


@pytest.mark.parametrize("form", ["json", "csv", "md", "tex"])
def test_each_format_is_the_file(form: str) -> None:
    assert render(TABLE, form) == (GOLDEN / f"table.{form}").read_text(encoding="utf-8")


def test_files_for_machines_keep_every_digit() -> None:
    rows = list(csv.DictReader(io.StringIO(render(TABLE, "csv"))))
    assert float(rows[1]["mean"]) == 1 / 3
    assert float(rows[1]["delta"]) == -0.0123456789
    assert json.loads(render(TABLE, "json"))["rows"][1]["mean"] == 1 / 3


def test_digits_are_for_people_alone() -> None:
    assert readable(TABLE, digits=2).rows[1][2:5] == ("0.33", "0.25", "3")
    assert render(TABLE, "csv", digits=2) == render(TABLE, "csv")


def test_numbers_that_are_not_finite_are_null() -> None:
    assert to_json({"a": float("nan"), "b": (float("inf"), 1.5)}) == '{"a": null, "b": [null, 1.5]}'
    assert to_csv([{"a": float("nan"), "b": float("-inf"), "c": -1.5}]) == "a,b,c\n,,-1.5\n"


@pytest.mark.parametrize("text", ["=1+2", "+1", "-1", "@SUM(A1)", "\tx", "\r=1"])
def test_text_is_never_a_formula_in_csv(text: str) -> None:
    (row,) = csv.DictReader(io.StringIO(to_csv([{"name": text}])))
    assert row == {"name": "'" + text.replace("\r", " ")}


CELLS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)


@settings(deadline=None)
@given(st.lists(st.fixed_dictionaries({"a": CELLS, "b|c": CELLS}), min_size=1, max_size=4))
def test_any_rows_come_back_from_csv(rows: list[dict[str, Any]]) -> None:
    found = list(csv.reader(io.StringIO(to_csv(rows), newline="")))
    assert len(found) == len(rows) + 1
    for read, row in zip(found[1:], rows, strict=True):
        for text, value in zip(read, row.values(), strict=True):
            if isinstance(value, float):
                assert (float(text) == value) if math.isfinite(value) else (text == "")
            elif isinstance(value, str):
                assert text.removeprefix("'") == value.replace("\r", " ").removeprefix("'")
            else:
                assert text == ("" if value is None else str(value))


@settings(deadline=None)
@given(st.lists(st.text(max_size=30), min_size=2, max_size=2), st.text(max_size=30))
def test_any_text_stays_in_its_cell_for_people(texts: list[str], title: str) -> None:
    table = ReadableTable(title, ("one", "two"), (tuple(texts),), (False, True), title)
    row = to_markdown(table).splitlines()[4]
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 3
    line = to_latex(table).splitlines()[7]
    assert len(re.findall(r"(?<!\\)&", line)) == 1


def test_markdown_and_latex_are_escaped() -> None:
    nasty = replace(
        readable(TABLE), title=r"a|b `c` <i> \input{x} $1% #2_3 ~^&", rows=(), caption="two\nlines"
    )
    markdown = to_markdown(nasty)
    assert markdown.startswith(r"**a\|b \`c\` \<i\> \\input{x} \$1% \#2\_3 \~^&**" + "\n")
    assert "two lines" in markdown
    title = r"a|b `c` $<$i$>$ \textbackslash{}input\{x\} \$1\% \#2\_3 \textasciitilde{}\textasciicircum{}\&"
    assert rf"\caption{{{title}. two lines}}" in to_latex(nasty)


def test_a_clean_table_has_no_remarks() -> None:
    table = readable(replace(TABLE, rows=(CONTROL, TREATMENT)))
    assert table.headings[-1] == "p"
    assert len({len(row) for row in table.rows} | {len(table.headings), len(table.numeric)}) == 1
