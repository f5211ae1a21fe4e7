"""Rows as a Parquet file, where pyarrow is installed."""

import importlib
import io
import json
import math
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any


def can_write_parquet() -> bool:
    """Whether this installation has pyarrow."""
    return find_spec("pyarrow") is not None


def to_parquet(rows: Sequence[dict[str, Any]]) -> bytes:
    """Rows that all have the columns of the first, in full precision.

    A column of numbers, of yes or no, or of lists of numbers keeps its type; every other is text, with
    JSON for what is not text itself. What is not known, and a number that is not finite, is null.
    """
    arrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    columns = {name: _column(arrow, [row[name] for row in rows]) for name in rows[0]}
    file = io.BytesIO()
    parquet.write_table(arrow.table(columns), file)
    return file.getvalue()


def _column(arrow: Any, values: list[Any]) -> Any:
    finite = [None if isinstance(v, float) and not math.isfinite(v) else v for v in values]
    kinds = {type(value) for value in finite if value is not None}
    if kinds <= {list, tuple}:
        items = {type(item) for value in finite for item in value or ()}
        if items <= {int, float}:
            return arrow.array(finite, arrow.list_(_number(arrow, items)))
    if kinds == {bool}:
        return arrow.array(finite, arrow.bool_())
    if kinds <= {int, float}:
        return arrow.array(finite, _number(arrow, kinds))
    return arrow.array([_text(value) for value in finite], arrow.string())


def _number(arrow: Any, kinds: set[type[Any]]) -> Any:
    return arrow.int64() if kinds == {int} else arrow.float64()


def _text(value: Any) -> str | None:
    return None if value is None else value if isinstance(value, str) else json.dumps(value)
