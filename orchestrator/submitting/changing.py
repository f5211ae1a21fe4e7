"""What `cancel`, `pause`, `resume`, `retry`, `priority` and `delete` change, and print of it."""

from collections.abc import Callable

import click
from sqlalchemy.orm import Session

from headcount.orchestrator.following.overview import SweepState, find_sweep, sweep_state
from headcount.orchestrator.scheduling.lease import current_holder
from headcount.orchestrator.settings import load_settings
from headcount.orchestrator.store import open_store, steering, withdraw
from headcount.orchestrator.store.journal import user_name


def cancel_sweep(name: str) -> None:
    state = _change(name, "withdrawn", lambda session, sweep, by: withdraw(session, sweep, by=by))
    if state.states.get("cancelling") and not _is_scheduled():
        click.echo("No scheduler is at work; the next one stops the jobs that run.")


def pause_sweep(name: str) -> None:
    _change(name, "paused", lambda session, sweep, by: steering.pause(session, sweep, by=by))


def resume_sweep(name: str) -> None:
    state = _change(name, "resumed", lambda session, sweep, by: steering.resume(session, sweep, by=by))
    _say_who_trains(name, state)


def retry_sweep(name: str) -> None:
    state = _change(name, "queued again", lambda session, sweep, by: steering.retry(session, sweep, by=by))
    if not state.states.get("failed") and state.states.get("cancelled"):
        click.echo(f"To queue the cancelled ones: headcount run {name}")
    _say_who_trains(name, state)


def set_priority(name: str, priority: int) -> None:
    def change(session: Session, sweep: int, by: str) -> int:
        return steering.set_priority(session, sweep, priority, by=by)

    _change(name, f"at priority {priority}", change)


def delete_sweep(name: str) -> None:
    with open_store(load_settings()).write() as session:
        count = steering.delete_sweep(session, find_sweep(session, name).id, by=user_name())
    click.echo(f"{name}: removed; {count} {'job stays' if count == 1 else 'jobs stay'} in the store")


def _change(name: str, done: str, change: Callable[[Session, int, str], int]) -> SweepState:
    """Change the sweep, and say of how many jobs."""
    with open_store(load_settings()).write() as session:
        sweep = find_sweep(session, name)
        count = change(session, sweep.id, user_name())
        state = sweep_state(session, sweep)
    click.echo(f"{name}: {count} {'job' if count == 1 else 'jobs'} {done}; now {state.words}")
    return state


def _say_who_trains(name: str, state: SweepState) -> None:
    if state.states.get("queued") and not _is_scheduled():
        click.echo(f"No scheduler is at work; to train them: headcount run {name}")


def _is_scheduled() -> bool:
    return current_holder(open_store(load_settings())) is not None
