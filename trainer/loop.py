"""One job, from its configuration to its result: a generator of plain events."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from headcount.trainer.attempt import Attempt
from headcount.trainer.config import JobConfig
from headcount.trainer.data import Dataset
from headcount.trainer.events import Checkpoint, Event
from headcount.trainer.exact import exact_mode
from headcount.trainer.execution import Execution


def train(
    config: JobConfig,
    dataset: Dataset,
    *,
    folder: Path | None = None,
    execution: Execution = Execution(),  # noqa: B008 (frozen)
    stop: Callable[[], bool] = lambda: False,
    weights: Path | None = None,
) -> Iterator[Event]:
    """Train `config` on `dataset`: `Started`, then what happens as it does, then one `Result`.

    With a `folder`, the job goes on from the newest whole checkpoint there, and keeps there what
    `trainer.job_files.job_folder` lists. The evaluations before that checkpoint are told again, so that a
    listener who missed some has them all.

    `stop` is asked between updates: true writes a checkpoint and ends without a result. PyTorch's global
    settings are those of the exact mode only while the generator runs, and the caller's own between events.

    `weights` is the model's file that `config.init.weights` names, where it names one.

    Raises `UserError` for a data set, device or checkpoint that does not fit the job, and for a folder that
    cannot be written.
    """
    with exact_mode(execution):
        attempt = Attempt(config, dataset, folder, execution)
    try:
        with exact_mode(execution):
            events = attempt.start(weights)
        yield from events
        while not attempt.ended:
            with exact_mode(execution):
                events = attempt.advance(stop)
            for event in events:
                began = time.perf_counter()
                yield event
                if isinstance(event, Checkpoint):  # the listener may have sent it elsewhere
                    attempt.save_seconds += time.perf_counter() - began
    finally:
        attempt.close()
