"""Files of runs from elsewhere as records with their line: CSV, JSON lines, Parquet."""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from headcount.trainer.errors import UserError, nearest

FORMS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")


@dataclass(frozen=True)
class Record:
    """One row: where it stands, from 1, and its values by column; an empty value is left out."""

    line: int
    values: dict[str, Any]


def read_records(file: Path) -> tuple[list[str], list[Record]]:
    """A file's columns and rows, by the form that its suffix names. Raises `UserError` naming the line."""
    readers = {".csv": _csv, ".tsv": _csv, ".jsonl": _lines, ".ndjson": _lines, ".parquet": _parquet}
    suffix = file.suffix.lower()
    if suffix not in readers:
        raise UserError(f"{file}: runs are read from {', '.join(FORMS)}; {nearest(suffix, FORMS)}")
    try:
        records = list(readers[suffix](file))
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UserError(
            f"{file} is not UTF-8 text: byte {error.start} is {error.object[error.start]:#x}"
        ) from error
    if not records:
        raise UserError(f"{file} has no rows")
    names = dict.fromkeys(n for record in records for n in record.values)
    if readers[suffix] is _csv:
        names = dict.fromkeys(_header(file))  # also a column that every row leaves empty
    return list(names), records


def _header(file: Path) -> list[str]:
    with open(file, encoding="utf-8-sig", newline="") as text:
        names: list[str] = next(_rows(file, text))
        return names


def _rows(file: Path, text: TextIO) -> Any:
    """The reader of the csv module, whose type has no public name."""
    return csv.reader(text, delimiter="\t" if file.suffix.lower() == ".tsv" else ",", strict=True)


def _csv(file: Path) -> Iterator[Record]:
    with open(file, encoding="utf-8-sig", newline="") as text:
        rows = _rows(file, text)
        try:
            names: list[str] = next(rows, [])
            if doubled := [n for n in names if names.count(n) > 1]:
                raise UserError(f"{file}:1: the column {doubled[0]!r} is named twice")
            for row in rows:
                if not row:
                    continue
                if len(row) != len(names):
                    raise UserError(
                        f"{file}:{rows.line_num}: {len(row)} values where {len(names)} columns are named"
                    )
                yield Record(
                    rows.line_num, {n: v.strip() for n, v in zip(names, row, strict=True) if v.strip()}
                )
        except csv.Error as error:
            raise UserError(f"{file}:{rows.line_num}: {error}") from error


def _lines(file: Path) -> Iterator[Record]:
    with open(file, encoding="utf-8") as text:
        for number, line in enumerate(text, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise UserError(f"{file}:{number}: not JSON: {error}") from error
            if not isinstance(row, dict):
                raise UserError(f'{file}:{number}: expected an object, such as {{"seed": 0}}')
            yield Record(number, _flat(row))


def _flat(row: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested objects by dotted names, as in {"model": {"kv_heads": 4}}."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        elif value not in (None, ""):
            flat[prefix + name] = value
    return flat


def _parquet(file: Path) -> Iterator[Record]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise UserError(
            f"{file}: reading Parquet needs pyarrow; install it, or write the rows as CSV"
        ) from error
    try:
        rows = parquet.read_table(file).to_pylist()
    except pyarrow.ArrowInvalid as error:
        raise UserError(f"{file} is not Parquet: {error}") from error
    for number, row in enumerate(rows, 1):
        yield Record(number, _flat(row))
