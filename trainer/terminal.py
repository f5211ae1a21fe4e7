"""One job, told as lines: its progress, its evaluations and its result."""

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from headcount.trainer.config import JobConfig, job_from_fields
from headcount.trainer.data import open_dataset, prepare
from headcount.trainer.events import Checkpoint, Evaluation, Event, Progress, Result, Spike, Started
from headcount.trainer.execution import Execution
from headcount.trainer.flops import parameter_count

PROGRESS_SECONDS = 5.0
"""Between lines of progress."""

FINISHED, DIVERGED, STOPPED = 0, 3, 130
"""Exit codes; 2 is a user's mistake."""

Print = Callable[[str], object]


def run_job(
    fields: Mapping[str, object],
    seed: int,
    folder: Path,
    home: Path,
    execution: Execution,
    tell: Print,
    weights: Path | None = None,
) -> int:
    """Train the job to its end, or until Ctrl-C or SIGTERM, and go on from what `folder` holds.

    `fields`: as `job_from_fields` takes them; the vocabulary is the data's where they leave it out.
    `weights`: the file that they start from, if any. Returns the exit code. Raises `UserError` for what the
    user can mend.
    """
    from headcount.trainer.loop import train

    config = job_from_fields(fields, seed)
    manifest = prepare(config.data, home)
    if "model.vocab_size" not in fields:
        config = replace(config, model=replace(config.model, vocab_size=manifest.vocab_size))
    tell(
        f"data   {manifest.name}: {manifest.train_tokens:,} tokens for training, "
        f"{manifest.validation_tokens:,} for validation, {manifest.vocab_size:,} in the vocabulary"
    )
    tell(
        f"job    {parameter_count(config):,} parameters, {config.model.residual}; {config.train.steps:,} "
        f"steps of {config.train.batch_tokens:,} tokens; seed {config.seed}"
    )
    last: Event | None = None
    printer = _Printer(config, tell)
    dataset = open_dataset(manifest.fingerprint, home)
    with _stopped_by_signals() as stop:
        events = train(config, dataset, folder=folder, execution=execution, stop=stop, weights=weights)
        for last in events:
            printer.show(last)
    if not isinstance(last, Result):
        tell(f"stopped; the same command goes on from {folder}")
        return STOPPED
    tell(f"files  {folder}")
    return FINISHED if last.outcome == "finished" else DIVERGED


class _Printer:
    def __init__(self, config: JobConfig, tell: Print) -> None:
        self._steps, self._tell = config.train.steps, tell
        self._shown_at = time.monotonic() - PROGRESS_SECONDS

    def show(self, event: Event) -> None:
        match event:
            case Started():
                known = {k: v for k, v in event.environment.items() if v is not None}
                self._tell("on     " + ", ".join(f"{k} {v}" for k, v in known.items()))
                if event.step:
                    self._tell(f"going on from step {event.step}")
            case Progress() if time.monotonic() - self._shown_at >= PROGRESS_SECONDS:
                self._shown_at = time.monotonic()
                self._tell(
                    f"{self._at(event.step)}  training {event.loss:.4f}  rate {event.learning_rate:.2e}  "
                    f"gradient {event.gradient_norm:.2f}  {event.tokens_per_second:,.0f} tokens/s"
                )
            case Evaluation():
                self._tell(f"{self._at(event.step)}  validation {event.loss:.4f}")
            case Spike():
                self._tell(f"{self._at(event.step)}  the loss rose for {event.steps} steps, and recovered")
            case Checkpoint():
                self._tell(f"{self._at(event.step)}  checkpoint {event.file}")
            case Result():
                self._show_result(event)

    def _show_result(self, result: Result) -> None:
        if result.tail_mean is None:
            self._tell(f"result diverged at step {result.step}")
        else:
            self._tell(f"result tail mean {result.tail_mean:.6f} nats a token")
        for name, value in result.measurements.items():
            self._tell(f"       {name} {value:,.6g}" if value < 1e6 else f"       {name} {value:,.0f}")

    def _at(self, step: int) -> str:
        return f"{step:>{len(str(self._steps))}}/{self._steps}"


@contextmanager
def _stopped_by_signals() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C or SIGTERM asked for the end; a second one ends the process at once."""
    asked: list[int] = []

    def ask(number: int, frame: object) -> None:
        asked.append(number)
        signal.signal(number, signal.SIG_DFL)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
