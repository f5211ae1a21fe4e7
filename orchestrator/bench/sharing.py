"""What sharing a card brings: the same jobs by one slot, by two, four and eight at a time, and their bits."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from headcount.orchestrator.bench.figures import Figure, load_words
from headcount.trainer.config import job_from_fields
from headcount.trainer.data import prepare
from headcount.trainer.errors import UserError

BUDGET_SECONDS = 80.0
"""For the jobs of all rounds together, were nothing gained by sharing, where no number of steps is given."""

FEWEST_STEPS = 8
TRIAL_STEPS = 200
"""Of the job that tells how long a step takes."""

_NO_JOB_OF_OURS = 10**6
"""The seed of jobs that are not counted."""


def packing(
    folder: Path, device: str, scale: str, steps: int | None, counts: Sequence[int] = (1, 2, 4, 8)
) -> Iterator[Figure | str]:
    """Jobs an hour with each number of slots at a time, after each slot has trained a job to warm up.

    The jobs are as many as the most slots, and differ in their seeds. A slot is a process that trains its
    part of them one after another, as ours do, without a scheduler between. Without `steps` they are as long
    as `BUDGET_SECONDS` lets them be. Raises `UserError` for jobs that the device cannot train.
    """
    text = folder / "text.txt"
    letters = random.Random(0).choices("etaoin shrdlu ", k=1_000_000)
    text.write_text("".join(letters), encoding="ascii")
    fields = {"model.scale": scale, "model.residual": "mhar", "data.text": [str(text)]}
    fingerprint = prepare(job_from_fields(fields, 0).data, folder).fingerprint
    jobs = max(counts)
    with ExitStack() as stack:
        slots: list[_Slot] = []
        alone: dict[str, list[str]] = {}
        rate = 0.0
        for count in counts:
            new = [stack.enter_context(_Slot(folder, fingerprint, device)) for _ in range(count - len(slots))]
            _train(new, _of_length(fields, FEWEST_STEPS), [[_NO_JOB_OF_OURS]] * len(new))
            slots += new
            if steps is None:
                steps = _affordable(slots[0], fields, len(counts) * jobs)
            if not alone:
                yield f"{jobs} jobs of {scale}, {steps} steps, on the {device}; {load_words()}"
            parts = [list(range(number, jobs, count)) for number in range(count)]
            told = _train(slots[:count], _of_length(fields, steps), parts)
            seconds = max(part["ended"] for part in told) - min(part["begun"] for part in told)
            losses = {seed: found for part in told for seed, found in part["losses"].items()}
            alone, rate = alone or losses, rate or jobs / seconds
            name = f"jobs an hour, {count} at a time"
            yield Figure(
                name, 3600 * jobs / seconds, "jobs/h", detail=f"{jobs / seconds / rate:.2f} × of one"
            )
            changed = sum(losses[seed] != alone[seed] for seed in alone)
            yield Figure("  whose bits differ from those of one at a time", changed, "jobs", at_most=0)


def _of_length(fields: dict[str, Any], steps: int) -> dict[str, Any]:
    """`fields` for so many steps with eight evaluations."""
    length = {"train.steps": steps, "train.warmup_steps": steps // 10, "train.eval_every": steps // 8}
    return {**fields, **length, "train.eval_windows": 4}


def _affordable(slot: "_Slot", fields: dict[str, Any], jobs: int) -> int:
    """As many steps as so many jobs, one after another, can have: by a short one, whose start counts too."""
    [told] = _train([slot], _of_length(fields, TRIAL_STEPS), [[_NO_JOB_OF_OURS]])
    return max(FEWEST_STEPS, int(BUDGET_SECONDS / jobs / (told["ended"] - told["begun"]) * TRIAL_STEPS))


class _Slot:
    """A process that trains what it is asked to; a context manager that ends it."""

    def __init__(self, home: Path, fingerprint: str, device: str) -> None:
        module = "headcount.orchestrator.bench.packing_side"
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, str(home), fingerprint, device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> "_Slot":
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, fields: dict[str, Any], seeds: list[int]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"fields": fields, "seeds": seeds}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "a slot has failed"
        found: dict[str, Any] = json.loads(line)
        if "error" in found:
            raise UserError(found["error"])
        return found


def _train(
    slots: Sequence[_Slot], fields: dict[str, Any], parts: Sequence[list[int]]
) -> list[dict[str, Any]]:
    """Each slot its part, all at once."""
    for slot, seeds in zip(slots, parts, strict=True):
        slot.ask(fields, seeds)
    return [slot.answer() for slot in slots]
