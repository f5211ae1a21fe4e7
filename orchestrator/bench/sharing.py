"""What sharing a card brings: the same jobs by one slot, by two, four and eight at a time, and their bits."""

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from headcount.orchestrator.bench.figures import Figure, load_words
from headcount.trainer.config import job_from_fields
from headcount.trainer.data import prepare

START_SECONDS = 600.0


def packing(
    folder: Path, device: str, scale: str, steps: int, counts: Sequence[int] = (1, 2, 4, 8)
) -> Iterator[Figure | str]:
    """Jobs an hour with each number of slots at a time, after each slot has trained a job to warm up.

    The jobs are as many as the most slots, and differ in their seeds. A slot is a process that trains its
    part of them one after another, as ours do, without a scheduler between.
    """
    text = folder / "text.txt"
    letters = random.Random(0).choices("etaoin shrdlu ", k=1_000_000)
    text.write_text("".join(letters), encoding="ascii")
    length = {"train.steps": steps, "train.warmup_steps": steps // 10, "train.eval_every": steps // 8}
    length["train.eval_windows"] = 4
    fields = {"model.scale": scale, "model.residual": "mhar", "data.text": [str(text)], **length}
    fingerprint = prepare(job_from_fields(fields, 0).data, folder).fingerprint
    jobs = max(counts)
    yield f"{jobs} jobs of {scale}, {steps} steps, on the {device}; {load_words()}"
    alone: dict[str, list[str]] = {}
    rate = 0.0
    for count in counts:
        told = _told(folder / f"at-{count}", folder, fingerprint, fields, device, count, jobs)
        seconds = max(part["ended"] for part in told) - min(part["begun"] for part in told)
        losses = {seed: found for part in told for seed, found in part["losses"].items()}
        alone, rate = alone or losses, rate or jobs / seconds
        name = f"jobs an hour, {count} at a time"
        yield Figure(name, 3600 * jobs / seconds, "jobs/h", detail=f"{jobs / seconds / rate:.2f} × of one")
        changed = sum(losses[seed] != alone[seed] for seed in alone)
        yield Figure("  whose bits differ from those of one at a time", changed, "jobs", at_most=0)


def _told(
    folder: Path, home: Path, fingerprint: str, fields: dict[str, Any], device: str, count: int, jobs: int
) -> list[Any]:
    """What each of `count` slots says of its part of the jobs."""
    folder.mkdir()
    go = folder / "go"
    slots = []
    for number in range(count):
        ready = folder / f"ready-{number}"
        command = [sys.executable, "-P", "-m", "headcount.orchestrator.bench.packing_side", str(home)]
        command += [fingerprint, json.dumps(fields), device, str(ready), str(go)]
        command += [str(seed) for seed in range(number, jobs, count)]
        slots.append((ready, subprocess.Popen(command, stdout=subprocess.PIPE, text=True)))
    deadline = time.monotonic() + START_SECONDS
    while not all(ready.exists() for ready, _ in slots):
        assert time.monotonic() < deadline, "slots did not start"
        assert all(slot.poll() is None for _, slot in slots), "a slot has failed"
        time.sleep(0.05)
    go.touch()
    said = [slot.communicate()[0] for _, slot in slots]
    return [json.loads(line) for line in said]
