"""The results of a sweep: its cells, the ablation table, curve, grid and paired statistics."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import fastapi
from fastapi import APIRouter, Depends, Path, Request
from pydantic import Field
from sqlalchemy.orm import Session
from starlette.responses import Response

from headcount.api import results
from headcount.api.answering import Body, answer, answer_from_table, as_json
from headcount.api.bodies import table_body
from headcount.api.caching import NOT_MODIFIED
from headcount.api.columns import DIGITS
from headcount.api.dependencies import CellId, Query, SweepName, no_query
from headcount.api.formats import MEDIA_TYPES
from headcount.api.negotiation import accepted_form, suffix_form
from headcount.api.problems import responses
from headcount.api.results import (
    ITEMS,
    MEASURED,
    TABLES,
    AblationTable,
    CellView,
    Grid,
    HeadCurve,
    NamedTable,
    PairedStatistics,
)
from headcount.api.security import needs
from headcount.api.versions import of_results
from headcount.orchestrator.artifacts.folder import open_artifacts

router = APIRouter(prefix="/api/v1/sweeps/{sweep}", tags=["results"], responses=responses(404) | NOT_MODIFIED)


@dataclass(frozen=True)
class CellList:
    """Every cell of a sweep in the order of its plan."""

    items: tuple[CellView, ...]


@router.get("/cells", response_model=CellList, openapi_extra=needs("read"), dependencies=[Depends(no_query)])
async def list_cells(request: Request, sweep: SweepName) -> Response:
    """The cells of a sweep, controls among them, with the result of every seed."""

    def make(session: Session) -> bytes:
        return as_json(CellList(results.cells(session, sweep)))

    return await answer(request, of_results(sweep), make)


@router.get(
    "/cells/{cell}", response_model=CellView, openapi_extra=needs("read"), dependencies=[Depends(no_query)]
)
async def get_cell(request: Request, sweep: SweepName, cell: CellId) -> Response:
    """One cell with the result of every seed."""

    def make(session: Session) -> bytes:
        return as_json(results.cell_view(session, sweep, cell))

    return await answer(request, of_results(sweep), make)


class TableQuery(Query):
    """How the table is written."""

    digits: int = Field(DIGITS, ge=0, le=15, description="Decimals in md and tex; json and csv are exact.")
    reference: Literal["paper"] | None = Field(
        None, description="Published figures of the same cells beside ours, compared in sign and order."
    )


TABLE_CONTENT: dict[str, Any] = {
    media.partition(";")[0]: {"schema": {"type": "string"}} for media in MEDIA_TYPES.values()
}
"""What the forms of a table are described as."""

_TABLE_RESPONSES: dict[int | str, dict[str, Any]] = responses(404, 406) | {
    200: {
        "description": "The table in the form asked for.",
        "content": TABLE_CONTENT
        | {"application/json": {"schema": {"$ref": "#/components/schemas/AblationTable"}}},
    }
}


@router.get("/table", response_model=AblationTable, responses=_TABLE_RESPONSES, openapi_extra=needs("read"))
async def get_table(
    request: Request, sweep: SweepName, query: Annotated[TableQuery, fastapi.Query()]
) -> Response:
    """The ablation table, in the form that Accept asks for: JSON, CSV, Markdown, LaTeX or Parquet."""
    return await _table(request, sweep, accepted_form(request), query)


@router.get(
    "/table.{form}", response_model=AblationTable, responses=_TABLE_RESPONSES, openapi_extra=needs("read")
)
async def get_table_as(
    request: Request,
    sweep: SweepName,
    form: Annotated[str, Path(json_schema_extra={"enum": list(MEDIA_TYPES)})],
    query: Annotated[TableQuery, fastapi.Query()],
) -> Response:
    """The ablation table in the form that the suffix names, whatever Accept says."""
    return await _table(request, sweep, suffix_form(form), query)


async def _table(request: Request, sweep: str, form: str, query: TableQuery) -> Response:
    path = request.scope["path"].rpartition("/")[0] + "/table"
    links = [
        f'<{path}.{other}>; rel="alternate"; type="{media.partition(";")[0]}"'
        for other, media in MEDIA_TYPES.items()
        if other != form
    ]

    def make(table: AblationTable) -> Body:
        return Body(table_body(table, form, query.digits), {"Link": ", ".join(links)})

    with_reference = query.reference is not None
    return await answer_from_table(request, sweep, make, form=form, with_reference=with_reference)


NamedTableName = Annotated[str, Path(json_schema_extra={"enum": [*TABLES, *MEASURED, ITEMS]})]

_NAMED_RESPONSES: dict[int | str, dict[str, Any]] = responses(404, 406) | {
    200: {
        **_TABLE_RESPONSES[200],
        "content": _TABLE_RESPONSES[200]["content"]
        | {"application/json": {"schema": {"$ref": "#/components/schemas/NamedTable"}}},
    }
}


class NamedTableQuery(Query):
    """How a named table is written, and the scaling law of its gains in compute."""

    digits: int = Field(DIGITS, ge=0, le=15, description="Decimals in md and tex; json and csv are exact.")
    exponent: float | None = Field(
        None, gt=0, le=100, description="α of L = E + (K / compute)^α; `main` then tells gains in compute."
    )
    irreducible: float = Field(0, ge=0, le=100, description="E of the same law, nats.")


@router.get(
    "/tables/{name}.{form}",
    response_model=NamedTable,
    responses=_NAMED_RESPONSES,
    openapi_extra=needs("read"),
)
async def get_named_table_as(
    request: Request,
    sweep: SweepName,
    name: NamedTableName,
    form: Annotated[str, Path(json_schema_extra={"enum": list(MEDIA_TYPES)})],
    query: Annotated[NamedTableQuery, fastapi.Query()],
) -> Response:
    """A table named after its question, in the form that the suffix names."""
    return await _named(request, sweep, name, suffix_form(form), query)


@router.get(
    "/tables/{name}", response_model=NamedTable, responses=_NAMED_RESPONSES, openapi_extra=needs("read")
)
async def get_named_table(
    request: Request,
    sweep: SweepName,
    name: NamedTableName,
    query: Annotated[NamedTableQuery, fastapi.Query()],
) -> Response:
    """A table named after its question, in the form that the header Accept asks for."""
    return await _named(request, sweep, name, accepted_form(request), query)


async def _named(request: Request, sweep: str, name: str, form: str, query: NamedTableQuery) -> Response:
    law = results.ScalingLaw(query.exponent, query.irreducible) if query.exponent is not None else None

    if name in (*MEASURED, ITEMS):
        files = open_artifacts(request.app.state.settings)

        def measured(session: Session) -> bytes:
            if name == ITEMS:
                return table_body(results.items_table(session, sweep, files.read), form, query.digits)
            return table_body(results.measured_table(session, sweep, name), form, query.digits)

        return await answer(request, of_results(sweep), measured, form=form)

    def made(table: AblationTable) -> bytes:
        return table_body(results.named_table(table, name, law), form, query.digits)

    return await answer_from_table(request, sweep, made, form=form)


class CurveQuery(Query):
    """What the curve is over."""

    axis: str | None = Field(None, max_length=100, description="By default that of the sweep's analysis.")


@router.get("/head-curve", response_model=HeadCurve, openapi_extra=needs("read"))
async def get_head_curve(
    request: Request, sweep: SweepName, query: Annotated[CurveQuery, fastapi.Query()]
) -> Response:
    """Loss and delta against one axis, one line for each setting of the others."""

    def make(table: AblationTable) -> bytes:
        return as_json(results.head_curve(table, query.axis))

    return await answer_from_table(request, sweep, make)


class GridQuery(Query):
    """The two axes."""

    rows: str | None = Field(None, max_length=100, description="By default the KV heads.")
    columns: str | None = Field(None, max_length=100, description="By default the axis of the analysis.")


@router.get("/grid", response_model=Grid, openapi_extra=needs("read"))
async def get_grid(
    request: Request, sweep: SweepName, query: Annotated[GridQuery, fastapi.Query()]
) -> Response:
    """Every cell over two axes, one panel for each setting of the others."""

    def make(table: AblationTable) -> bytes:
        return as_json(results.grid(table, query.rows, query.columns))

    return await answer_from_table(request, sweep, make)


@router.get(
    "/statistics",
    response_model=PairedStatistics,
    openapi_extra=needs("read"),
    dependencies=[Depends(no_query)],
)
async def get_paired_statistics(request: Request, sweep: SweepName) -> Response:
    """Every delta within its family, the pooled error with its check, and whether each line is a U."""

    def make(table: AblationTable) -> bytes:
        return as_json(results.paired_statistics(table))

    return await answer_from_table(request, sweep, make)
