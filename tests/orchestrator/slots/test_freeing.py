"""A card's memory between the jobs of a slot: `pytest -m gpu -s` on a machine that has a card to itself.

What the process holds is read from the driver, as all of the card that is not free. A context grows by the
code of the kernels that ran and by their stacks, once for each kernel; jobs leave nothing else behind.
"""

import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from headcount.orchestrator.slots.freeing import free_memory
from headcount.trainer.config import JobConfig, fields_of, job_from_fields
from headcount.trainer.data import open_dataset, prepare
from headcount.trainer.events import Result
from headcount.trainer.execution import Execution
from headcount.trainer.loop import train

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("default"),  # the compiler sets off some of its own
]

MiB = 2**20

KERNELS = 1024 * MiB
"""More than this is not kernels: the margin of a context after the first of each job."""

SAME = 32 * MiB
"""The driver's own pages: the margin of a context that has run the same jobs before."""

JOBS = (
    {"model.scale": "50m", "model.residual": "mhar", "model.routing_heads": 4, "train.batch_tokens": 16_384},
    {"model.scale": "micro", "model.residual": "additive"},
)
"""In bf16, compiled, with graphs; and in fp32, of another shape and stream."""

PEAKS = (1024 * MiB, 32 * MiB)
"""At least what the allocator holds for each while it trains: there is something to give back."""


def a_job(folder: Path, number: int) -> JobConfig:
    text = folder / "text.txt"
    if not text.exists():
        text.write_text("what a slot leaves on its card is its context " * 20_000)
    length = {"train.steps": 24, "train.warmup_steps": 2, "train.eval_every": 3, "train.eval_windows": 4}
    return job_from_fields({**JOBS[number], **length, "data.text": [str(text)]})


def held() -> int:
    """Bytes of the card that are not free."""
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return total - free


def bare_context() -> int:
    """What the process holds with nothing of a job in it."""
    torch.zeros(1, device="cuda")
    assert free_memory()
    return held()


def test_jobs_one_after_another_leave_the_context_alone(tmp_path: Path) -> None:
    context, settled = bare_context(), None
    for number in (0, 1, 0, 1):
        config = a_job(tmp_path, number)
        dataset = open_dataset(prepare(config.data, tmp_path).fingerprint, tmp_path)
        torch.cuda.reset_peak_memory_stats()
        *_, result = train(config, dataset, execution=Execution(device="cuda"))
        assert isinstance(result, Result)
        assert torch.cuda.max_memory_reserved() > PEAKS[number]
        assert free_memory()
        assert torch.cuda.memory_reserved() == 0
        print(f"after job {number}: {held() / MiB:.0f} MiB are held, by a bare context {context / MiB:.0f}")
        assert held() - context < KERNELS
        assert settled is None or held() - settled < SAME
        settled = held() if number == 1 else settled


def test_a_slot_is_used_again_and_holds_its_context_alone(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    from jobs import small_work

    from headcount.orchestrator.slots.slot import Slot

    work = small_work(tmp_path)
    slot = Slot(str(tmp_path), str(tmp_path / "artifacts"), False)
    context = bare_context()
    for attempt, number in enumerate((0, 1, 0, 1), 1):
        config = a_job(tmp_path, number)
        work = replace(
            work,
            attempt_id=attempt,
            job_id=f"a{attempt}" * 32,
            config=fields_of(config),
            fingerprint=prepare(config.data, tmp_path).fingerprint,
        )
        slot.start(work, 0)
        deadline = time.monotonic() + 240
        while not (records := slot.events(attempt, -1, 1)[1]) or records[-1]["kind"] != "ended":
            assert time.monotonic() < deadline
        assert (records[-1]["cause"], records[-1]["reusable"]) == ("finished", True), records[-1]["message"]
        assert torch.cuda.memory_reserved() == 0
        assert held() - context < KERNELS
