"""What the page for a new sweep shows: its file, and what is wrong with it or would come of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from sqlalchemy.orm import Session

from headcount.api.problems import Problem
from headcount.api.results import NotFoundError, sweep_view
from headcount.api.submission import PlanView, plan_view, read_spec
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store.difference import difference
from headcount.orchestrator.submitting.planning import difference_lines
from headcount.sweeps.file.spec import SpecError
from headcount.sweeps.studies import Study, studies, study_text
from headcount.trainer.errors import UserError

FIRST_EXAMPLE = "quickstart"

MOST_CELLS = 100
"""Of a plan that the page lists."""


@dataclass(frozen=True)
class Trouble:
    """What is wrong with a file."""

    line: int | None
    field: str | None
    words: str


@dataclass(frozen=True)
class Checked:
    """A file as a dry run over REST has it: it has a plan or a trouble."""

    plan: PlanView | None = None
    changes: tuple[str, ...] = ()
    """What it changes of the sweep that is there under its name, in words."""
    exists: bool = False
    trouble: Trouble | None = None


def check(session: Session, text: str, settings: Settings) -> Checked:
    """What submitting `text` would do. Nothing is submitted."""
    try:
        planned = read_spec(session, text, settings)
        found = difference(session, planned)
        return Checked(
            plan=plan_view(session, planned),
            changes=tuple(difference_lines(found)) if found else (),
            exists=found is not None,
        )
    except (UserError, Problem) as error:
        return Checked(trouble=trouble(error))


def trouble(error: Exception) -> Trouble:
    """An error of a sweep file, by its line where it has one."""
    if isinstance(error, SpecError):
        return Trouble(error.line, error.field, error.problem)
    return Trouble(None, None, str(error))


def first_text(session: Session, query: dict[str, str]) -> str:
    """What stands in the editor at first: a ready-made study, or the file of the sweep that `from` names.

    Raises `NotFoundError` for a name that is neither.
    """
    if "from" in query:
        return sweep_view(session, query["from"]).yaml
    try:
        return study_text(query.get("example", FIRST_EXAMPLE).replace("_", "-"))
    except UserError as error:
        raise NotFoundError(str(error)) from error


@cache
def examples() -> tuple[Study, ...]:
    """The ready-made studies that one can begin with; their files are read once."""
    return tuple(studies())


def written(form: dict[str, str]) -> str:
    """The text of a form's editor: browsers send its lines ended as in a mail."""
    return form.get("text", "").replace("\r\n", "\n")


def numbered(text: str) -> Iterator[int]:
    """The numbers of its lines, from 1."""
    yield from range(1, text.count("\n") + 2)
