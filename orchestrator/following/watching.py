"""Following a sweep until nothing of it is to come, and how it came out: `headcount watch`, and `run`."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from headcount.orchestrator.following.instruments import failed_instruments
from headcount.orchestrator.following.live import Picture, cell_words
from headcount.orchestrator.following.overview import SweepState, find_sweep, job_lines, sweep_state
from headcount.orchestrator.following.time_to_go import TimeToGo, time_to_go
from headcount.orchestrator.scheduling.lease import current_holder
from headcount.orchestrator.search.telling import growth_words
from headcount.orchestrator.store import Store, StoreUnavailable
from headcount.orchestrator.store.limits import nothing_begins
from headcount.orchestrator.store.models import SETTLED_STATES
from headcount.orchestrator.submitting.service import Service, Unreachable
from headcount.sweeps.rendering import duration

LOOK_SECONDS = 0.5
ASK_SECONDS = 2.0
"""Between two looks at a service."""

MOST_PROBLEMS = 10
"""Jobs without a result that are named at the end; `headcount jobs` lists them all."""


@dataclass(frozen=True)
class Look:
    """A sweep at one moment."""

    state: SweepState
    to_go: TimeToGo | None
    held_back: str | None
    """Why nothing that waits is begun, or goes on: the budget or the end of the sweep."""

    @property
    def is_over(self) -> bool:
        to_come = self.state.waiting or self.state.growing
        return not to_come or self.held_back is not None


def look(store: Store, name: str) -> Look:
    """How far the sweep is, and whether more is to come."""
    with store.read() as session:
        sweep = find_sweep(session, name)
        state = sweep_state(session, sweep)
        held = nothing_begins(session, sweep, state.waiting, len(state.running))
        return Look(state, time_to_go(session, sweep), held)


def follow(store: Store, name: str, console: Console, note: Callable[[], str]) -> Look:
    """Show the sweep until nothing is to come; how it was at last. `note` is asked before each look."""
    with Picture(console) as picture:
        while True:
            words = note()
            try:
                found = look(store, name)
            except StoreUnavailable as error:
                console.print(f"{error}; waiting", highlight=False)
                time.sleep(2)
                continue
            if found.is_over:
                return found
            picture.show(found.state, found.to_go, words)
            time.sleep(LOOK_SECONDS)


def watch_store(name: str, store: Store, console: Console) -> int:
    """Follow a sweep of this store, whoever trains it; the exit code as of `conclude`. Raises `UserError`."""
    began = time.monotonic()

    def note() -> str:
        holder = current_holder(store)
        return f"scheduled by {holder}" if holder else "no scheduler is at work"

    if not look(store, name).is_over and current_holder(store) is None:
        console.print(f"No scheduler is at work; to train what waits: headcount run {name}", highlight=False)
    over = follow(store, name, console, note)
    return conclude(store, name, console, time.monotonic() - began, over.held_back)


def watch_service(name: str, service: Service, console: Console) -> int:
    """Follow a sweep of a service until nothing is to come: 0 when every job has finished, 3 otherwise.

    Raises `UserError`.
    """
    line = ""
    while True:
        try:
            sweep = service.sweep(name)
        except Unreachable as error:
            if not line:
                raise
            console.print(f"{error}; waiting", highlight=False, markup=False)
            time.sleep(5)
            continue
        if (words := _words(sweep)) != line:
            console.print(words, highlight=False, markup=False)
            line = words
        measured = [count for states in sweep.get("instruments", {}).values() for count in states.items()]
        is_over = (
            sweep.get("settled") == sweep.get("jobs")
            and not sweep.get("growing")
            and all(state in SETTLED_STATES for state, _ in measured)
        )
        if is_over or sweep.get("held_back"):
            for line in sweep.get("growth") or ():
                console.print(line, highlight=False, markup=False, soft_wrap=True)
            if held := sweep.get("held_back"):
                console.print(f"No more is begun: {held}", highlight=False, markup=False, soft_wrap=True)
            finished = sweep.get("states", {}).get("finished", 0) + sweep.get("pruned", 0)
            failed = any(state == "failed" for state, _ in measured)
            return 0 if is_over and finished == sweep.get("jobs") and not failed else 3
        time.sleep(ASK_SECONDS)


def _words(sweep: dict[str, Any]) -> str:
    counts = [f"{count} {state}" for state, count in sweep.get("states", {}).items() if count]
    done = f"{float(sweep.get('progress', 0)):.0%} of the work"
    return f"{sweep.get('name')}: {', '.join(counts)} of {sweep.get('jobs')} ({done})"


def conclude(store: Store, name: str, console: Console, seconds: float, held_back: str | None) -> int:
    """Say how a sweep came out: 0 when every job has finished, 3 when some have another outcome, or none."""
    with store.read() as session:
        sweep = find_sweep(session, name)
        state = sweep_state(session, sweep)
        lines = [line for line in job_lines(session, sweep) if line.state != "finished" and not line.pruned]
        found = list(growth_words(session, sweep))
        failed = failed_instruments(session, sweep.id)
        is_whole = sweep.growth not in ("growing", "held", "stopped")
    console.print(f"{name}: {state.words}, in {duration(seconds)}", highlight=False, soft_wrap=True)
    if held_back:
        console.print(f"No more is begun: {held_back}", highlight=False, soft_wrap=True)
    for words in found:
        console.print(words, highlight=False, markup=False, soft_wrap=True)
    problems = [line for line in lines if not (held_back and line.state in ("queued", "running"))]
    for line in problems[:MOST_PROBLEMS]:
        reason = (line.message or line.cause or "").strip().splitlines()
        console.print(
            f"  {line.state} {line.id[:8]} {cell_words(line.settings)} seed={line.seed}"
            + (f": {reason[-1]}" if reason and line.state == "failed" else ""),
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    for instrument in failed[:MOST_PROBLEMS]:
        which = f"{instrument.id[:8]} {instrument.kind} of {instrument.parent_id[:8]}"
        console.print(
            f"  failed {which}: {instrument.message}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    if len(problems) > MOST_PROBLEMS:
        console.print(f"  and {len(problems) - MOST_PROBLEMS} more: headcount jobs {name}", highlight=False)
    if failed or any(line.state == "failed" for line in problems):
        console.print("How its attempts ended: headcount why JOB", highlight=False)
    return 3 if lines or failed or not is_whole else 0
