"""A small job as a slot gets it, and everything that a slot tells of one."""

import time
from pathlib import Path
from typing import Any

from homes import write_text

from headcount.orchestrator.slots.slot import Slot
from headcount.orchestrator.store.transitions import Work, job_folder
from headcount.trainer.config import fields_of, job_from_fields
from headcount.trainer.data import prepare

JOB = "ab" * 32


def small_work(home: Path, steps: int = 20, eval_every: int = 2) -> Work:
    """A first attempt at a job on a text of its own, prepared under `home`."""
    home.mkdir(parents=True, exist_ok=True)
    write_text(home / "text")
    fields = {"data.text": [str(home / "text")], "train.steps": steps, "train.eval_every": eval_every}
    small = {"data.context": 64, "train.batch_tokens": 256, "train.eval_windows": 4}
    config = job_from_fields({**fields, **small})
    fingerprint = prepare(config.data, home).fingerprint
    return Work(1, JOB, 1, fields_of(config), 0, fingerprint, f"{job_folder(JOB)}/attempt-1.log")


def all_events(slot: Slot, work: Work) -> list[dict[str, Any]]:
    """Everything an attempt tells, none of it acknowledged."""
    slot.start(work, 0)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        first, records = slot.events(work.attempt_id, -1, 1)
        assert first == 0
        if records and records[-1]["kind"] == "ended":
            return records
        time.sleep(0.02)
    raise AssertionError("the job did not end")
