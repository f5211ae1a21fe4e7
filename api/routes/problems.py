"""The kinds of errors, where the `type` of a problem leads."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Path

from headcount.api.dependencies import no_query
from headcount.api.problem_types import TYPES
from headcount.api.problems import TYPES_PATH, Problem, responses
from headcount.api.security import needs
from headcount.trainer.errors import nearest

router = APIRouter(prefix=TYPES_PATH, tags=["service"], dependencies=[Depends(no_query)])


@dataclass(frozen=True)
class ProblemType:
    """One kind of error."""

    code: str
    meaning: str
    """What it means, and what to do about it."""


@dataclass(frozen=True)
class ProblemTypeList:
    """Every kind of error, by its code."""

    items: tuple[ProblemType, ...]


@router.get("", openapi_extra=needs("anyone"), responses=responses())
def list_problem_types() -> ProblemTypeList:
    """Every kind of error."""
    return ProblemTypeList(tuple(ProblemType(code, meaning) for code, meaning in TYPES.items()))


@router.get("/{code}", openapi_extra=needs("anyone"), responses=responses(404))
def get_problem_type(code: Annotated[str, Path(max_length=100)]) -> ProblemType:
    """What one kind of error means, and what to do about it."""
    if code not in TYPES:
        raise Problem(404, "not_found", f"no problem has the code {code!r}; {nearest(code, TYPES)}")
    return ProblemType(code, TYPES[code])
