"""A slot whose disk is full: the short form of the drill on a cluster."""

import time
from dataclasses import replace
from pathlib import Path

from disks import resize, small_disk
from jobs import all_events, small_work

from headcount.orchestrator.slots.slot import Slot


def test_a_checkpoint_that_finds_no_room_ends_the_attempt_with_what_to_do(tmp_path: Path) -> None:
    """With room again, the next attempt writes its own."""
    work = small_work(tmp_path)
    long = replace(work, config={**work.config, "train.steps": 10_000})
    with small_disk(tmp_path / "artifacts", "size=128k") as disk:
        slot = Slot(str(tmp_path), str(disk), False)
        for number, kinds in ((1, ["ended"]), (2, ["checkpoint", "ended"])):
            attempt = replace(long, attempt_id=number, number=number)
            slot.start(attempt, 0)
            while not any(record.get("step", 0) > 0 for record in slot.events(number, -1, 1)[1]):
                time.sleep(0.02)
            slot.stop(number, "preempted")
            records = all_events(slot, attempt)
            told = [record for record in records if record["kind"] in ("checkpoint", "ended")]
            assert [record["kind"] for record in told] == kinds
            if number == 1:
                assert told[-1]["cause"] == "user_error"
                assert "cannot write the checkpoint of step " in told[-1]["message"]
                assert (
                    "No space left on device; free some space and start the job again" in told[-1]["message"]
                )
                assert not list(disk.rglob("step-*"))
                resize(disk, "32m")
            else:
                assert told[-1]["cause"] == "preempted"
