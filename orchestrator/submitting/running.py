"""`headcount run`: submit a sweep, see to a scheduler, follow until every job has an outcome."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType

from rich.console import Console

from headcount.orchestrator.following.watching import conclude, follow, look
from headcount.orchestrator.scheduling.lease import current_holder
from headcount.orchestrator.scheduling.supervisor import Supervisor
from headcount.orchestrator.search.suggesting import check_needs
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store, open_store, submit
from headcount.orchestrator.store.difference import difference
from headcount.orchestrator.store.journal import now, user_name
from headcount.orchestrator.submitting.planning import difference_lines, found_words, make_plan, read_spec
from headcount.sweeps.rendering import counted


def run_sweep(
    file_or_name: str,
    settings: Settings,
    ray_address: str | None,
    console: Console,
    stop_after: float | None = None,
    small: bool = False,
) -> int:
    """Returns the exit code: 0 when every job has finished, 3 when some have another outcome, or none yet.

    After `stop_after` seconds what still runs writes a checkpoint and goes back to the queue, and only jobs
    that should end before are begun. Raises `UserError` for what the user can mend, and KeyboardInterrupt
    after a clean stop.
    """
    store = open_store(settings)
    spec = read_spec(file_or_name, store, small)
    if spec.search is not None and current_holder(store) is None:
        check_needs(spec)  # the scheduler that this command starts has this Python
    planned = make_plan(spec, settings, store)
    with store.write() as session:
        found = difference(session, planned)
        stop_at = None if stop_after is None else now() + timedelta(seconds=stop_after)
        submission = submit(session, planned, user_name(), stop_at)
    for line in (*(difference_lines(found) if found else ()), found_words(spec.name, submission)):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    began = time.monotonic()
    first = look(store, spec.name)
    held_back = first.held_back
    if not first.is_over:
        again = spec.name if small else file_or_name
        held_back = _follow(spec.name, settings, store, ray_address, console, again)
    return conclude(store, spec.name, console, time.monotonic() - began, held_back)


def _follow(
    name: str, settings: Settings, store: Store, ray_address: str | None, console: Console, again: str
) -> str | None:
    """Follow with a scheduler at work, ours where there is no other; why the rest is held back, if it is."""
    ours = False
    with _terminated_as_interrupted(), Supervisor(settings, store, ray_address) as supervisor:

        def note() -> str:
            nonlocal ours
            supervisor.check()
            ours = supervisor.is_ours
            holder = None if ours else current_holder(store)
            return f"scheduled by {holder}" if holder else ""

        try:
            return follow(store, name, console, note).held_back
        except KeyboardInterrupt:
            if ours and supervisor.is_alone:
                console.print("Stopping: running jobs write a checkpoint.")
            if supervisor.stop():
                rest = f"Another command schedules and goes on; to end it: headcount cancel {name}"
            else:
                left = look(store, name).state.waiting
                rest = f"{counted(left, 'job')} left; go on with: headcount run {again}"
            console.print(rest, highlight=False, soft_wrap=True)
            raise


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
