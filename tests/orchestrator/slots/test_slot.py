"""A slot as plain Python: what it tells, how it stops, and how it leaves."""

import io
import pickle
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from jobs import all_events, small_work

from headcount.orchestrator.slots.output import MOST_BYTES, CappedOutput
from headcount.orchestrator.slots.slot import Slot
from headcount.orchestrator.store.transitions import Work


@pytest.fixture
def work(tmp_path: Path) -> Work:
    return small_work(tmp_path)


@pytest.fixture
def slot(tmp_path: Path) -> Slot:
    return Slot(str(tmp_path), str(tmp_path / "artifacts"), False)


def test_a_job_tells_its_events_in_order_until_its_end(slot: Slot, work: Work) -> None:
    records = all_events(slot, work)
    kinds = [record["kind"] for record in records if record["kind"] != "progress"]
    assert kinds == ["started", *["evaluation"] * 11, *["artifact"] * 2, "checkpoint", "result", "ended"]
    assert records[-1] == {"kind": "ended", "cause": "finished", "message": None, "reusable": True}
    assert slot.attempt() == 1


class Plain(pickle.Unpickler):
    """Reads what needs no import."""

    def find_class(self, module: str, name: str) -> object:
        raise AssertionError(f"{module}.{name}")


def test_what_it_tells_is_read_without_pytorch(slot: Slot, work: Work) -> None:
    records = all_events(slot, work)
    assert Plain(io.BytesIO(pickle.dumps(records))).load() == records


def test_events_are_kept_until_they_are_stored(slot: Slot, work: Work) -> None:
    everything = all_events(slot, work)
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
    records = all_events(slot, long)
    assert [record["kind"] for record in records[-2:]] == ["checkpoint", "ended"]
    assert (records[-1]["cause"], records[-1]["reusable"]) == ("cancelled", False)
    again = replace(long, attempt_id=2, number=2)
    _, [started, *_] = slot.start(again, 10)
    slot.stop(2, "cancelled")
    assert started["step"] == records[-2]["step"] > 0


def test_what_cannot_be_trained_ends_with_its_cause(slot: Slot, work: Work) -> None:
    broken = replace(work, config={**work.config, "model.heads": 3})
    [ended] = all_events(slot, broken)
    assert (ended["cause"], ended["reusable"]) == ("user_error", False)
    assert ended["message"].startswith("model.heads: 3 does not divide model.d_model (64)")
    elsewhere = replace(work, attempt_id=2, fingerprint="cd" * 32)
    [ended] = all_events(slot, elsewhere)
    assert ended["cause"] == "data_differs"


LEFT_ALONE = """
import sys, time
import headcount.orchestrator.slots.slot as module
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
    assert len(list(tmp_path.glob("artifacts/jobs/ab/*/attempt-1/checkpoints/step-*.pt"))) == 1


def test_output_is_caught_from_c_code_too_and_capped(tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib\n"
        "from headcount.orchestrator.slots.output import CappedOutput\n"
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
