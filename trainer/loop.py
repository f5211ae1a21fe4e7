"""One job, from its configuration to its result: a generator of plain events."""

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from headcount.trainer import checkpoint
from headcount.trainer.config import JobConfig
from headcount.trainer.data import Dataset
from headcount.trainer.data.dataset import Windows
from headcount.trainer.device import choose_device, describe, peak_memory_bytes, reset_peak_memory
from headcount.trainer.divergence import DivergenceWatch
from headcount.trainer.errors import UserError
from headcount.trainer.evaluation import mean_loss, window_losses
from headcount.trainer.events import Evaluation, Event, Progress, Result, Started
from headcount.trainer.exact import exact_mode
from headcount.trainer.execution import Execution, batch_windows, micro_batch_rule
from headcount.trainer.model import Transformer
from headcount.trainer.schedule import learning_rate
from headcount.trainer.step import updater_for
from headcount.trainer.tail import is_evaluated, tail_mean, tail_start

PROGRESS_SECONDS = 1.0

MOST_UNREAD = 64
"""Updates whose losses may wait on the device: reading one makes the CPU wait for the GPU."""


def train(
    config: JobConfig,
    dataset: Dataset,
    *,
    folder: Path | None = None,
    execution: Execution = Execution(),  # noqa: B008 (frozen)
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Event]:
    """Train `config` on `dataset`: `Started`, then progress, evaluations and checkpoints, then one `Result`.

    With a `folder`, the job goes on from the newest whole checkpoint there and writes its own to it. The
    evaluations before that checkpoint are told again, so that a listener who missed some has them all.

    `stop` is asked between updates: true writes a checkpoint and ends without a result. PyTorch's global
    settings are those of the exact mode only while the generator runs, and the caller's own between events.

    Raises `UserError` for a data set, device or checkpoint that does not fit the job, and for a folder that
    cannot be written.
    """
    with exact_mode(execution):
        attempt = _Attempt(config, dataset, folder, execution)
        events = attempt.start()
    yield from events
    while not attempt.ended:
        with exact_mode(execution):
            events = attempt.advance(stop)
        yield from events


class _Attempt:
    """One try at the job. After `step` updates, every evaluation due by then is done."""

    def __init__(
        self, config: JobConfig, dataset: Dataset, folder: Path | None, execution: Execution
    ) -> None:
        _check_data(config, dataset)
        self.began = time.perf_counter()
        self.config, self.dataset, self.folder, self.execution = config, dataset, folder, execution
        self.device = choose_device(config, execution)
        reset_peak_memory(self.device)
        self.pass_windows = micro_batch_rule(config)
        self.micro_batch = execution.micro_batch or self.pass_windows
        self.model = Transformer(config.model, config.data.context, config.seed).to(self.device)
        self.model.compute_dtype = torch.bfloat16 if config.train.precision == "bf16" else torch.float32
        self.updater = updater_for(self.model, config, execution, self.micro_batch)
        self.watch = DivergenceWatch(config.train)
        self.validation = self._to_device(dataset.validation(config.train.eval_windows, config.data.context))
        self.owner = checkpoint.identity(config, dataset.manifest.fingerprint)
        self.step = self.saved_step = 0
        self.diverged_step: int | None = None
        self.evaluations: list[Evaluation] = []
        self.unread: list[Tensor] = []
        self.loss, self.gradient_norm = math.nan, torch.zeros(())
        self.trained_tokens, self.trained_seconds = 0, 0.0
        self.told = (self.trained_tokens, self.trained_seconds)
        self.saved_at = self.told_at = self.began
        self.ended = False

    def start(self) -> list[Event]:
        """Go on from a checkpoint, or evaluate before the first update."""
        state = checkpoint.load_newest(self.folder, self.owner) if self.folder else None
        if state is not None:
            self._restore(state)
        source = torch.empty(1, self.config.model.d_model, dtype=self.model.compute_dtype, device=self.device)
        routing = self.model.stream.implementation(source)
        environment = describe(self.device, self.execution, self.micro_batch, routing)
        environment |= self.updater.environment()
        events: list[Event] = [Started(self.step, environment), *self.evaluations]
        if state is None:
            events += self._evaluate()
        if self.step == self.config.train.steps and not self.ended:
            events.append(self._end("finished"))
        self.saved_at = self.told_at = time.perf_counter()
        return events

    def advance(self, stop: Callable[[], bool]) -> list[Event]:
        """Update until there is something to tell, or until `stop` asks for the end."""
        began, before = time.perf_counter(), self.step
        progress = save = False
        while not (stopped := stop()):
            self._update()
            now = time.perf_counter()
            progress = now - self.told_at >= PROGRESS_SECONDS
            save = now - self.saved_at >= self.execution.checkpoint_seconds
            if progress or save or self._is_due():
                break
            if len(self.unread) == MOST_UNREAD and self._diverged():
                break
        diverged = self._diverged()
        self.trained_seconds += time.perf_counter() - began
        self.trained_tokens += (self.step - before) * self.config.train.batch_tokens
        if diverged:
            return [self._end("diverged")]
        if stopped:
            self.ended = True
            return self._save()
        last = self.step == self.config.train.steps
        events: list[Event] = []
        if progress:
            events.append(self._progress())
        if self._is_due():
            events += self._evaluate()
        if (save or last) and not self.ended:
            events += self._save()
        if last and not self.ended:
            events.append(self._end("finished"))
        return events

    def _update(self) -> None:
        train, data = self.config.train, self.config.data
        windows = self.dataset.batch(self.config.seed, self.step, batch_windows(self.config), data.context)
        rate = learning_rate(train, self.step)
        loss, self.gradient_norm = self.updater.update(torch.from_numpy(windows), rate)
        self.unread.append(loss)
        self.step += 1

    def _is_due(self) -> bool:
        return is_evaluated(self.step, self.config.train.steps, self.config.train.eval_every)

    def _diverged(self) -> bool:
        """Read the losses that wait on the device; whether the job has diverged by now."""
        if self.unread and self.diverged_step is None:
            losses = torch.stack(self.unread).tolist()
            self.unread.clear()
            self.loss = losses[-1]
            for step, loss in enumerate(losses, self.step - len(losses)):
                if self.watch.diverges(step, loss):
                    self.diverged_step = step + 1
                    break
        return self.diverged_step is not None

    def _progress(self) -> Progress:
        tokens, seconds = self.trained_tokens - self.told[0], self.trained_seconds - self.told[1]
        self.told, self.told_at = (self.trained_tokens, self.trained_seconds), time.perf_counter()
        return Progress(
            step=self.step,
            loss=self.loss,
            learning_rate=learning_rate(self.config.train, self.step - 1),
            gradient_norm=float(self.gradient_norm),
            tokens_per_second=tokens / seconds,
        )

    def _evaluate(self) -> list[Event]:
        """An evaluation, or the end of the job where its loss is not finite."""
        losses = window_losses(self.model, self.validation, self.pass_windows)
        loss = mean_loss(losses)
        if not math.isfinite(loss):
            self.diverged_step = self.step
            return [self._end("diverged")]
        in_tail = self.step >= tail_start(self.config.train.steps)
        evaluation = Evaluation(self.step, loss, losses if in_tail else ())
        self.evaluations.append(evaluation)
        return [evaluation]

    def _save(self) -> list[Event]:
        if self.folder is None or self.step == self.saved_step:
            return []
        state = {
            "step": self.step,
            **self.updater.state(),
            "watch": self.watch.state(),
            "evaluations": [(e.step, e.loss, list(e.window_losses)) for e in self.evaluations],
        }
        event = checkpoint.save(self.folder, self.step, state, self.owner)
        self.saved_step, self.saved_at = self.step, time.perf_counter()
        return [event]

    def _restore(self, state: dict[str, Any]) -> None:
        self.step = self.saved_step = state["step"]
        self.updater.restore(state)
        self.watch.restore(state["watch"])
        self.evaluations = [
            Evaluation(step, loss, tuple(losses)) for step, loss, losses in state["evaluations"]
        ]

    def _end(self, outcome: Literal["finished", "diverged"]) -> Result:
        self.ended = True
        measurements = {
            "seconds": time.perf_counter() - self.began,
            "peak_memory_bytes": peak_memory_bytes(self.device),
            "parameters": float(sum(p.numel() for p in self.model.parameters())),
        }
        if self.trained_tokens:
            measurements["tokens_per_second"] = self.trained_tokens / self.trained_seconds
        if outcome == "diverged":
            assert self.diverged_step is not None
            return Result("diverged", self.diverged_step, None, measurements)
        pairs = [(e.step, e.loss) for e in self.evaluations]
        return Result("finished", self.step, tail_mean(pairs, self.config.train.steps), measurements)

    def _to_device(self, windows: Windows) -> Tensor:
        return torch.from_numpy(windows).to(self.device)


def _check_data(config: JobConfig, dataset: Dataset) -> None:
    manifest, context = dataset.manifest, config.data.context
    if manifest.vocab_size > config.model.vocab_size:
        raise UserError(
            f"model.vocab_size: {config.model.vocab_size} is less than the {manifest.vocab_size} tokens "
            f"of the data set {manifest.name}"
        )
    for side, tokens in (("train", manifest.train_tokens), ("validation", manifest.validation_tokens)):
        if tokens <= context:
            raise UserError(
                f"data.context: a window of {context} needs {context + 1} tokens, and the data set "
                f"{manifest.name} has {tokens} {side} tokens"
            )
