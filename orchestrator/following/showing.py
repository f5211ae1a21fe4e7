"""What `status`, `jobs` and `logs` print."""

from collections.abc import Iterator
from typing import Literal

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text
from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.orchestrator.artifacts.folder import open_artifacts
from headcount.orchestrator.following.live import cell_words, running_table, to_go_words
from headcount.orchestrator.following.overview import (
    attempts_of,
    find_job,
    find_sweep,
    job_lines,
    sweep_state,
)
from headcount.orchestrator.following.time_to_go import time_to_go
from headcount.orchestrator.scheduling.lease import current_holder
from headcount.orchestrator.search.telling import growth_words
from headcount.orchestrator.settings import load_settings
from headcount.orchestrator.store import open_store
from headcount.orchestrator.store.limits import held_back, usage_of
from headcount.orchestrator.store.models import Sweep
from headcount.orchestrator.store.notices import current_notices

PIPED_WIDTH = 200
_NUMBERS = ("jobs", "seed", "step", "tail mean", "attempts")


def show_status(name: str | None) -> None:
    store = open_store(load_settings())
    console = _console()
    with store.read() as session:
        if name is not None:
            sweep = find_sweep(session, name)
            state = sweep_state(session, sweep)
            clock = f" ({to_go_words(time_to_go(session, sweep), state)})" if state.running else ""
            console.print(f"{sweep.name}: {state.progress}{clock}", highlight=False)
            if state.running:
                console.print(running_table(state))
            for line in _limits(session, sweep, state.waiting):
                console.print(line, highlight=False)
        else:
            sweeps = session.scalars(select(Sweep).order_by(Sweep.id)).all()
            if not sweeps:
                console.print("No sweep yet; 'headcount run FILE' makes one.")
                return
            table = _table(["sweep", "jobs", "state", "owner", "submitted"])
            for sweep in sweeps:
                state = sweep_state(session, sweep)
                submitted = f"{sweep.created:%Y-%m-%d %H:%M} UTC"
                table.add_row(Text(sweep.name), str(state.jobs), state.words, Text(sweep.owner), submitted)
            console.print(table)
        notices = current_notices(session)
    holder = current_holder(store)
    console.print(f"Scheduler: {holder or 'none at work'}", highlight=False)
    for subject, words in notices.items() if holder else ():  # what the last one found may be over
        if name is None or not subject.startswith("sweep ") or subject == f"sweep {name}":
            console.print(f"{subject}: {words}", highlight=False, markup=False)


def _limits(session: Session, sweep: Sweep, waiting: int) -> Iterator[str]:
    """What bounds a sweep, and what its analysis rests on, where that is to be told."""
    if sweep.gpu_hours is not None:
        used = usage_of(session, sweep).used / 3600
        yield f"Budget: {used:.3g} of {sweep.gpu_hours:g} GPU-hours used"
    if waiting and (reason := held_back(session, sweep)):
        yield f"No more is begun: {reason}"
    yield from growth_words(session, sweep)
    if sweep.is_exploratory:
        yield "Exploratory: its analysis was edited after it was submitted"


def show_jobs(name: str) -> None:
    with open_store(load_settings()).read() as session:
        lines = job_lines(session, find_sweep(session, name))
    table = _table(["job", "cell", "seed", "state", "step", "tail mean", "attempts", "last cause"])
    for line in lines:
        mean = "" if line.tail_mean is None else f"{line.tail_mean:.4f}"
        cause = line.cause if line.cause and line.cause != line.state else ""
        state = "pruned" if line.pruned else f"{line.state} (control)" if line.is_control else line.state
        step, attempts = f"{line.step}/{line.steps}", str(line.attempts)
        table.add_row(
            line.id[:12], cell_words(line.settings), str(line.seed), state, step, mean, attempts, cause
        )
    _console().print(table)


def show_logs(prefix: str) -> None:
    settings = load_settings()
    with open_store(settings).read() as session:
        job = find_job(session, prefix)
        attempts = attempts_of(session, job)
    click.echo(f"job {job.id}: {job.state}, step {job.step} of {job.config['train.steps']}")
    for attempt in attempts:
        ended = f"{attempt.ended:%H:%M:%S}" if attempt.ended else "now"
        times = f"{attempt.started:%Y-%m-%d %H:%M:%S} to {ended} UTC"
        click.echo(f"attempt {attempt.number} on {attempt.node}, {times}: {attempt.cause or 'running'}")
        if attempt.message:
            click.echo("\n".join(f"  {line}" for line in attempt.message.splitlines()))
    if attempts and attempts[-1].log:
        artifacts, key = open_artifacts(settings), attempts[-1].log
        printed = (artifacts.read(key) or b"").decode(errors="replace")
        if printed.strip() and printed.strip() != (attempts[-1].message or "").strip():
            where = f"output of attempt {attempts[-1].number} ({artifacts.url}/{key})"
            click.echo(f"{where}:\n{printed.rstrip()}")


def _console() -> Console:
    """As wide as the terminal; wide enough for every column where there is none."""
    console = Console()
    return console if console.is_terminal else Console(width=PIPED_WIDTH)


def _table(names: list[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in names:
        side: Literal["left", "right"] = "right" if name in _NUMBERS else "left"
        table.add_column(name, justify=side, no_wrap=name in ("job", "state"))
    return table
