"""`headcount submit`: wishes written into the store, or sent to a service; whoever schedules trains them."""

from dataclasses import fields
from pathlib import Path

from rich.console import Console

from headcount.orchestrator.following.overview import sweep_state
from headcount.orchestrator.scheduling.lease import current_holder
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Submission, open_store, submit
from headcount.orchestrator.store.difference import difference
from headcount.orchestrator.store.journal import user_name
from headcount.orchestrator.store.models import Sweep
from headcount.orchestrator.submitting.planning import (
    difference_lines,
    found_words,
    is_file,
    make_plan,
    read_spec,
)
from headcount.orchestrator.submitting.service import Service
from headcount.sweeps.file.spec import load_spec
from headcount.trainer.errors import UserError


def submit_to_store(file_or_name: str, settings: Settings, console: Console, small: bool = False) -> None:
    """Raises `UserError`."""
    store = open_store(settings)
    planned = make_plan(read_spec(file_or_name, store, small), settings, store)
    with store.write() as session:
        found = difference(session, planned)
        submission = submit(session, planned, user_name())
        is_paused = sweep_state(session, session.get_one(Sweep, submission.sweep_id)).paused
    name = planned.spec.name
    for line in (*(difference_lines(found) if found else ()), found_words(name, submission)):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if is_paused:
        hint = f"The sweep is paused; to go on: headcount resume {name}"
    elif current_holder(store) is None:
        hint = f"No scheduler is at work; to train them: headcount run {name}, or headcount scheduler"
    else:
        hint = f"To follow it: headcount watch {name}"
    console.print(hint, highlight=False, soft_wrap=True)


def submit_to_service(file: str, service: Service, console: Console, small: bool = False) -> None:
    """Raises `UserError` for a file that is wrong, before it is sent, and for what the service refuses."""
    if not is_file(file):
        raise UserError(f"{file}: no such file; a service is sent a sweep's file")
    spec = load_spec(Path(file), small)
    answer = service.submit(spec.text)
    counts = {field.name: int(answer.get(field.name, 0)) for field in fields(Submission)}
    for line in (
        found_words(spec.name, Submission(**counts)),
        f"To follow it: headcount watch {spec.name} --url {service.url}",
    ):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
