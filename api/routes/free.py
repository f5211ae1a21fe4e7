"""The table of one's own, as typed query fields."""

from typing import Annotated, Any, Literal

import fastapi
from fastapi import APIRouter, Path, Request, Response
from pydantic import Field
from sqlalchemy.orm import Session

from headcount.api import results
from headcount.api.answering import answer
from headcount.api.bodies import table_body
from headcount.api.caching import NOT_MODIFIED
from headcount.api.columns import DIGITS
from headcount.api.dependencies import LARGEST, Query, SweepName
from headcount.api.formats import MEDIA_TYPES
from headcount.api.negotiation import suffix_form
from headcount.api.problems import responses
from headcount.api.results import NamedTable, Statistic, Value
from headcount.api.security import needs
from headcount.api.versions import of_results

router = APIRouter(prefix="/api/v1/sweeps/{sweep}", tags=["results"])

_RESPONSES: dict[int | str, dict[str, Any]] = {
    **responses(404, 406),
    **NOT_MODIFIED,
    200: {
        "description": "The table in the form asked for.",
        "content": {media.partition(";")[0]: {"schema": {"type": "string"}} for media in MEDIA_TYPES.values()}
        | {"application/json": {"schema": {"$ref": "#/components/schemas/NamedTable"}}},
    },
}

Whole = Annotated[int, Field(ge=0, le=LARGEST)]


class FreeQuery(Query):
    """What the table shows of which jobs."""

    rows: list[str] = Field(min_length=1, max_length=10, description="Axes of the sweep, or `seed`.")
    columns: str | None = Field(None, max_length=100, description="One more axis, or `seed`.")
    value: Value = "loss"
    statistic: list[Statistic] = Field(["mean"], min_length=1, max_length=8)
    heads: list[Whole] = Field([], max_length=100, description="Only these numbers of routing heads.")
    kv_heads: list[Whole] = Field([], max_length=100, description="Only these numbers of KV heads.")
    lr_min: float | None = Field(None, gt=0, le=1000, description="Only peak learning rates from here.")
    lr_max: float | None = Field(None, gt=0, le=1000, description="Only peak learning rates up to here.")
    seed: list[Whole] = Field([], max_length=1000, description="Only these seeds.")
    role: Literal["treatment", "control"] | None = None
    digits: int = Field(DIGITS, ge=0, le=15, description="Decimals in md and tex; json and csv are exact.")


@router.get("/free.{form}", response_model=NamedTable, responses=_RESPONSES, openapi_extra=needs("read"))
async def get_free_table(
    request: Request,
    sweep: SweepName,
    form: Annotated[str, Path(json_schema_extra={"enum": list(MEDIA_TYPES)})],
    query: Annotated[FreeQuery, fastapi.Query()],
) -> Response:
    """A statistic of the losses or deltas by axes of your choice, over every job that the filters keep."""
    chosen = suffix_form(form)
    filters = results.Filters(
        tuple(query.heads), tuple(query.kv_heads), query.lr_min, query.lr_max, tuple(query.seed), query.role
    )

    def make(session: Session) -> bytes:
        found = results.free_table(
            session,
            sweep,
            rows=query.rows,
            columns=query.columns,
            value=query.value,
            statistics=tuple(dict.fromkeys(query.statistic)),
            filters=filters,
        )
        return table_body(found, chosen, query.digits)

    return await answer(request, of_results(sweep), make, form=chosen)
