"""A table as the bytes of an answer, in the form that was asked for."""

from headcount.api.answering import as_json
from headcount.api.columns import named_records, records
from headcount.api.formats import render, render_named
from headcount.api.parquet import to_parquet
from headcount.api.results import AblationTable, NamedTable


def table_body(table: AblationTable | NamedTable, form: str, digits: int) -> bytes:
    """The table in one of the forms of `formats.MEDIA_TYPES`; `digits` are the decimals for people."""
    if form == "json":
        return as_json(table)
    if isinstance(table, NamedTable):
        parquet = form == "parquet"
        return to_parquet(named_records(table)) if parquet else render_named(table, form, digits).encode()
    return to_parquet(records(table)) if form == "parquet" else render(table, form, digits).encode()
