"""A slot as plain Python: what it tells, how it stops, and how it leaves."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from homes import write_text

from headcount.orchestrator.output import MOST_BYTES, CappedOutput
from headcount.orchestrator.slot import Slot
from headcount.orchestrator.store.transitions import Work
from headcount.trainer.config import fields_of, job_from_fields
from headcount.trainer.data import prepare


@pytest.fixture
def work(tmp_path: Path) -> Work:
    write_text(tmp_path / "text")
    fields = {"data.text": [str(tmp_path / "text")], "train.steps": 20, "train.eval_every": 2}
    config = job_from_fields({**fields, "train.eval_windows": 4})
    fingerprint = prepare(config.data, tmp_path).fingerprint
    return Work(1, "ab" * 32, 1, fields_of(config), 0, fingerprint, "jobs/ab/attempt-1.log")


@pytest.fixture
def slot(tmp_path: Path) -> Slot:
    return Slot(str(tmp_path), str(tmp_path / "artifacts"), False)


def test_a_job_tells_its_events_in_order_until_its_end(slot: Slot, work: Work) -> None:
    records = _all_events(slot, work)
    kinds = [record["kind"] for record in records if record["kind"] != "progress"]
    assert kinds == ["started", *["evaluation"] * 11, *["artifact"] * 2, "checkpoint", "result", "ended"]
    assert records[-1] == {"kind": "ended", "cause": "finished", "message": None, "reusable": True}
    assert slot.attempt() == 1


def test_events_are_kept_until_they_are_stored(slot: Slot, work: Work) -> None:
    everything = _all_events(slot, work)
    last = len(everything) - 1
    assert slot.events(1, last - 2, 0) == (last - 1, everything[-2:])
    assert slot.start(work, 0) == (last - 1, everything[-2:])  # the same attempt is not run twice


def test_a_stopped_job_leaves_a_checkpoint_and_the_next_attempt_goes_on_from_it(
    slot: Slot, work: Work
) -> None:
    long = replace(work, config={**work.config, "train.steps": 10_000})
    slot.start(long, 0)
    while not any(record.get("step", 0) > 0 for record in slot.events(1, -1, 1)[1]):
        time.sleep(0.02)
    slot.stop(1, "cancelled")
    records = _all_events(slot, long)
    assert [record["kind"] for record in records[-2:]] == ["checkpoint", "ended"]
    assert (records[-1]["cause"], records[-1]["reusable"]) == ("cancelled", False)
    again = replace(long, attempt_id=2, number=2)
    _, [started, *_] = slot.start(again, 10)
    slot.stop(2, "cancelled")
    assert started["step"] == records[-2]["step"] > 0


def test_what_cannot_be_trained_ends_with_its_cause(slot: Slot, work: Work) -> None:
    broken = replace(work, config={**work.config, "model.heads": 3})
    [ended] = _all_events(slot, broken)
    assert (ended["cause"], ended["reusable"]) == ("user_error", False)
    assert ended["message"].startswith("model.heads: 3 does not divide model.d_model (64)")
    elsewhere = replace(work, attempt_id=2, fingerprint="cd" * 32)
    [ended] = _all_events(slot, elsewhere)
    assert ended["cause"] == "data_differs"


LEFT_ALONE = """
import sys, time
import headcount.orchestrator.slot as module
from headcount.orchestrator.store.transitions import Work
slot = module.Slot(sys.argv[1], sys.argv[1] + "/artifacts", False)
slot.start({work!r}, 0)
while not any(record.get("step", 0) > 0 for record in slot.events(1, -1, 1)[1]):
    time.sleep(0.05)
module.UNREAD_SECONDS = 1
time.sleep(60)
sys.exit(1)
"""


def test_a_slot_that_nobody_reads_writes_a_checkpoint_and_leaves(tmp_path: Path, work: Work) -> None:
    long = replace(work, config={**work.config, "train.steps": 100_000})
    code = LEFT_ALONE.format(work=long)
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], timeout=90).returncode == 0
    assert len(list(tmp_path.glob("artifacts/jobs/ab/*/checkpoints/step-*.pt"))) == 1


def test_output_is_caught_from_c_code_too_and_capped(tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib\n"
        "from headcount.orchestrator.output import CappedOutput\n"
        "output = CappedOutput(pathlib.Path(sys.argv[1]))\n"
        "with output.caught():\n"
        "    print('from Python')\n"
        "    os.system('echo from elsewhere')\n"
        "    for _ in range(30):\n"
        "        print('x' * 100_000)\n"
        "        sys.stdout.flush()\n"
        "        output.check()\n"
        "print('afterwards')\n"
    )
    log = tmp_path / "logs" / "attempt-1.log"
    done = subprocess.run([sys.executable, "-c", code, str(log)], capture_output=True, text=True, timeout=30)
    assert done.stdout == "afterwards\n"
    text = log.read_text()
    assert "from Python\n" in text
    assert "from elsewhere\n" in text
    assert text.endswith(f"[output beyond {MOST_BYTES} bytes is dropped]\n")
    assert len(text) < MOST_BYTES + 200_000
    assert CappedOutput(log).full is False


def _all_events(slot: Slot, work: Work) -> list[dict[str, Any]]:
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
