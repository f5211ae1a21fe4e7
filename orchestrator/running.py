"""`headcount run`: submit a sweep, see to a scheduler, follow until every job has an outcome."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

from rich.console import Console

from headcount.orchestrator.following import Picture, cell_words, duration
from headcount.orchestrator.lease import current_holder
from headcount.orchestrator.overview import SweepState, find_sweep, job_lines, sweep_state
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store, StoreUnavailable, Submission, open_store, submit
from headcount.orchestrator.store.journal import user_name
from headcount.orchestrator.store.models import Sweep
from headcount.orchestrator.supervisor import Supervisor
from headcount.orchestrator.time_to_go import time_to_go
from headcount.sweeps.plan import Plan, plan
from headcount.sweeps.spec import SweepSpec, load_spec, parse_spec
from headcount.trainer.config import DataConfig
from headcount.trainer.data import prepare

LOOK_SECONDS = 0.5
MOST_PROBLEMS = 10
"""Jobs without a result that are named at the end; `headcount jobs` lists them all."""


def run_sweep(file_or_name: str, settings: Settings, ray_address: str | None, console: Console) -> int:
    """Returns the exit code: 0 when every job has finished, 3 when some have another outcome.

    Raises `UserError` for what the user can mend, and KeyboardInterrupt after a clean stop.
    """
    store = open_store(settings)
    spec = read_spec(file_or_name, store)
    planned = make_plan(spec, settings)
    with store.write() as session:
        submission = submit(session, planned, user_name())
    console.print(_found(planned, submission), highlight=False, soft_wrap=True)
    began = time.monotonic()
    if _look(store, spec.name)[0].waiting:
        _follow(spec.name, settings, store, ray_address, console, file_or_name)
    return _conclude(spec.name, store, console, time.monotonic() - began)


def read_spec(file_or_name: str, store: Store) -> SweepSpec:
    """The sweep in a file, or the one of that name as it was submitted last."""
    if Path(file_or_name).exists() or Path(file_or_name).suffix in (".yaml", ".yml") or "/" in file_or_name:
        return load_spec(Path(file_or_name))
    with store.read() as session:
        sweep = find_sweep(session, file_or_name)
    return parse_spec(sweep.yaml, sweep.name, Path(sweep.folder) if sweep.folder else None)


def make_plan(spec: SweepSpec, settings: Settings) -> Plan:
    """The plan of a sweep, its text prepared under the home."""
    return plan(spec, lambda data: prepare(text_of(data, spec.folder), settings.home))


def text_of(data: DataConfig, folder: Path | None) -> DataConfig:
    """`data` with its relative paths taken from `folder`, where the sweep's file lies."""
    if folder is None or not data.text:
        return data
    return replace(data, text=tuple(str(folder / Path(path).expanduser()) for path in data.text))


def _found(planned: Plan, submission: Submission) -> str:
    counts = [
        f"{submission.new} new",
        f"{submission.known} known",
        f"{submission.shared} shared with other sweeps",
    ]
    words = f"{planned.spec.name}: {len(planned.jobs)} jobs, " + ", ".join(counts)
    if submission.requeued:
        words += f"; {submission.requeued} queued again"
    if submission.removed_cells:
        words += f"; {submission.removed_cells} cells withdrawn"
    return words


def _look(store: Store, name: str) -> tuple[SweepState, Sweep]:
    with store.read() as session:
        sweep = find_sweep(session, name)
        return sweep_state(session, sweep), sweep


def _follow(
    name: str, settings: Settings, store: Store, ray_address: str | None, console: Console, again: str
) -> None:
    ours = False
    with _terminated_as_interrupted(), Supervisor(settings, store, ray_address) as supervisor:
        try:
            with Picture(console) as picture:
                while True:
                    supervisor.check()
                    ours = supervisor.is_ours
                    try:
                        state, sweep = _look(store, name)
                        with store.read() as session:
                            to_go = time_to_go(session, sweep)
                    except StoreUnavailable as error:
                        console.print(f"{error}; waiting", highlight=False)
                        time.sleep(2)
                        continue
                    if not state.waiting:
                        break
                    holder = None if ours else current_holder(store)
                    picture.show(state, to_go, f"scheduled by {holder}" if holder else "")
                    time.sleep(LOOK_SECONDS)
        except KeyboardInterrupt:
            if ours:
                console.print("Stopping: running jobs write a checkpoint.")
                supervisor.stop()
            state, _ = _look(store, name)
            if ours:
                rest = f"{state.waiting} jobs are left; go on with: headcount run {again}"
            else:
                rest = f"Another command schedules and goes on; to end it: headcount cancel {name}"
            console.print(rest, highlight=False, soft_wrap=True)
            raise


def _conclude(name: str, store: Store, console: Console, seconds: float) -> int:
    with store.read() as session:
        sweep = find_sweep(session, name)
        state = sweep_state(session, sweep)
        problems = [line for line in job_lines(session, sweep) if line.state != "finished"]
    console.print(f"{name}: {state.words}, in {duration(seconds)}", highlight=False, soft_wrap=True)
    for line in problems[:MOST_PROBLEMS]:
        reason = (line.message or line.cause or "").strip().splitlines()
        console.print(
            f"  {line.state} {line.id[:8]} {cell_words(line.settings)} seed={line.seed}"
            + (f": {reason[-1]}" if reason and line.state == "failed" else ""),
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    if len(problems) > MOST_PROBLEMS:
        console.print(f"  and {len(problems) - MOST_PROBLEMS} more: headcount jobs {name}", highlight=False)
    if any(line.state == "failed" for line in problems):
        console.print("What a job printed: headcount logs JOB", highlight=False)
    return 3 if problems else 0


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM stops as cleanly as Ctrl-C; a second signal ends the command at once."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, _leave)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt), signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(130)
