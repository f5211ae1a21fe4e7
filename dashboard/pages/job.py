"""What the page of a job shows: its figures, attempts and their output, environment, and its control."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from headcount.api.results import JobView, cell_view, job_view
from headcount.api.results.routing import ENTROPY, TOP_SOURCE
from headcount.dashboard import text
from headcount.dashboard.pages.job_figures import job_figures
from headcount.dashboard.pages.job_logs import LogEnd, Read, log_end, logged
from headcount.dashboard.panel import Figure
from headcount.orchestrator.store.models import RESULT_STATES


@dataclass(frozen=True)
class JobPage:
    """Everything on the page."""

    job: JobView
    title: str
    """Its settings in the first sweep that wants it, and its seed."""
    figures: tuple[Figure, ...]
    """The losses first."""
    environment: dict[str, Any]
    """Of the last attempt that told one."""
    mixed: bool
    """Whether attempts ran in different environments."""
    logged: frozenset[int]
    """Numbers of the attempts whose output is kept."""
    log: LogEnd | None
    """Of the last of them."""
    measured: dict[str, float | None]
    """What the job as a whole was measured to be, by name."""
    sites: tuple[tuple[int, float | None, float | None], ...]
    """Of a job that routes, by site: its entropy, and the source that it reads most."""
    pair: tuple[int, int] | None
    """The control's cell and this job's, in the first sweep that wants it."""
    commands: tuple[tuple[str, str], ...]
    """What to type, and what that does."""


def job_page(session: Session, job_id: str, read: Read) -> JobPage:
    """The page of a job; `read` opens an artifact by its key. Raises `NotFoundError`."""
    job = job_view(session, job_id)
    told = [attempt.environment for attempt in job.attempts if attempt.environment]
    title, pair = _cell(session, job)
    return JobPage(
        job=job,
        title=title,
        figures=job_figures(session, job, title),
        environment=told[-1] if told else {},
        mixed=any(environment != told[0] for environment in told),
        logged=logged(session, job_id),
        log=log_end(session, job_id, read),
        measured={name: value for name, value in job.measurements.items() if not _of_site(name)},
        sites=_sites(job),
        pair=pair,
        commands=tuple(_commands(job)),
    )


def title_of(session: Session, job: JobView) -> str:
    """Its settings in the first sweep that wants it, and its seed."""
    return _cell(session, job)[0]


def _of_site(name: str) -> bool:
    return name.startswith((f"{ENTROPY}.", f"{TOP_SOURCE}."))


def _sites(job: JobView) -> tuple[tuple[int, float | None, float | None], ...]:
    told = job.measurements
    count = sum(name.startswith(f"{ENTROPY}.") for name in told)
    return tuple((at, told.get(f"{ENTROPY}.{at}"), told.get(f"{TOP_SOURCE}.{at}")) for at in range(count))


def _cell(session: Session, job: JobView) -> tuple[str, tuple[int, int] | None]:
    """The job's title, and its pair of cells, where it is of a cell."""
    if job.kind not in ("train", "external") or not job.wishes:
        return f"{job.kind} · seed {job.seed}", None
    wish = job.wishes[0]
    cell = cell_view(session, wish.sweep, wish.cell)
    named = text.cell_name(cell.settings, cell.is_control) if cell.settings or cell.is_control else ""
    title = " · ".join(filter(None, [named, f"seed {job.seed}"]))
    return title, (cell.control_id, cell.id) if cell.control_id is not None else None


def _commands(job: JobView) -> list[tuple[str, str]]:
    short = job.id[:12]
    found = [(f"headcount logs {short}", "how each attempt ended, and what the last one printed")]
    if job.state in ("queued", "running"):
        found.append((f"headcount why {short}", "what it waits for"))
    if job.kind == "train" and job.state in RESULT_STATES:
        found.insert(
            0, (f"headcount replay {short}", "trains it again here, and says whether the numbers are equal")
        )
    return found
