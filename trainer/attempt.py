"""One try at a job: it builds or restores the model, and tells what happens while it is updated."""

import logging
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from headcount.trainer.averaging import WeightAverage
from headcount.trainer.config import JobConfig
from headcount.trainer.data import Dataset
from headcount.trainer.device import (
    card_memory,
    choose_device,
    describe,
    peak_memory_bytes,
    reset_peak_memory,
)
from headcount.trainer.divergence import DivergenceWatch
from headcount.trainer.evaluation import head_reads, mean_loss, routing, window_losses
from headcount.trainer.events import Evaluation, Event, Progress, Result, Started
from headcount.trainer.execution import Execution, batch_windows, micro_batch_rule
from headcount.trainer.fitting import check_fit
from headcount.trainer.initial import start_model
from headcount.trainer.job_files.curves import Curves
from headcount.trainer.job_files.job_folder import JobFolder, State, told_again
from headcount.trainer.schedule import learning_rate
from headcount.trainer.speed import Speed, bits_per_byte, utilisation
from headcount.trainer.step import updater_for
from headcount.trainer.tail import is_evaluated, tail_mean, tail_start
from headcount.trainer.team.leader import Team

log = logging.getLogger(__name__)

PROGRESS_SECONDS = 1.0

MOST_UNREAD = 64
"""Updates whose losses may wait on the device: reading one makes the CPU wait for the GPU."""


class Attempt:
    """After `step` updates, every evaluation due by then is done. To be closed, however it ends."""

    def __init__(
        self, config: JobConfig, dataset: Dataset, folder: Path | None, execution: Execution
    ) -> None:
        check_fit(config, dataset.manifest)
        self.began = time.perf_counter()
        self.config, self.dataset, self.execution = config, dataset, execution
        self.folder = JobFolder(folder, config, dataset.manifest.fingerprint) if folder else None
        self.device = choose_device(config, execution)
        reset_peak_memory(self.device)
        card, gpus = card_memory(self.device), execution.gpus
        self.pass_windows = micro_batch_rule(config, card)
        most = batch_windows(config) // gpus
        self.micro_batch = min(execution.micro_batch or micro_batch_rule(config, card, gpus), most)
        self.team: Team | None = None
        self.watch = DivergenceWatch(config.train)
        self.curves = Curves()
        self.step = self.saved_step = 0
        self.diverged_step: int | None = None
        self.unread: list[Tensor] = []
        self.gradient_norm = torch.zeros(())
        self.speed = Speed()
        self.saved_at = self.told_at = self.began
        self.save_seconds = 0.0
        self.ended = False

    def close(self) -> None:
        if self.team is not None:
            self.team.close()

    def start(self, weights: Path | None) -> list[Event]:
        """Build the model; evaluate it, or go on from a checkpoint. `weights`: of a job that names some."""
        self._build(weights)
        state = self.folder.load() if self.folder else None
        self.step = self.saved_step = state["step"] if state else 0
        source = torch.empty(1, self.config.model.d_model, dtype=self.model.compute_dtype, device=self.device)
        tokens = source.expand(self.micro_batch * self.config.data.context, -1)
        routing = self.model.stream.routing(tokens)
        environment = describe(self.device, self.execution, self.micro_batch, routing)
        started = Started(self.step, environment | self.updater.environment())
        if state is not None and "result" in state:
            self.ended = True
            return [started, *told_again(state)]
        if state is not None:
            self._restore(state)
        events = [started, *(self.curves.told() if state else self._evaluate())]
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
            save = now - self.saved_at >= self._save_interval()
            if progress or save or self._is_due() or self.speed.is_unknown:
                break
            if len(self.unread) == MOST_UNREAD and self._diverged():
                break
        diverged = self._diverged()
        if self.step > before:
            tokens = (self.step - before) * self.config.train.batch_tokens
            self.speed.add(tokens, time.perf_counter() - began, since_start=time.perf_counter() - self.began)
        events: list[Event] = [*self.watch.spikes]
        for spike in self.watch.spikes:
            log.warning("the loss rose from step %d on for %d steps, and recovered", spike.step, spike.steps)
        self.watch.spikes.clear()
        if diverged:
            return events + self._end("diverged")
        if stopped:
            self.ended = True
            return events + self._save()
        if progress:
            events.append(self._progress())
        if self._is_due():
            events += self._evaluate()
        if not self.ended and self.step == self.config.train.steps:
            events += self._end("finished")
        if save and not self.ended:
            events += self._save()
        return events

    def _build(self, weights: Path | None) -> None:
        config, execution = self.config, self.execution
        if execution.gpus > 1:  # whose processes start while this one builds
            folder = self.folder.path if self.folder else None
            self.team = Team(config, self.dataset, folder, execution, self.micro_batch, self.device, weights)
        self.model = start_model(config, self.device, weights)
        self.updater = updater_for(self.model, config, execution, self.micro_batch)
        decay = config.train.ema_decay
        self.average = WeightAverage(self.model, decay) if decay else None
        validation = self.dataset.validation(config.train.eval_windows, config.data.context)
        self.validation = torch.from_numpy(validation).to(self.device)
        if self.team is not None:
            self.team.join()

    def _update(self) -> None:
        train, data = self.config.train, self.config.data
        windows = self.dataset.batch(self.config.seed, self.step, batch_windows(self.config), data.context)
        rate = learning_rate(train, self.step)
        own = torch.from_numpy(windows)
        if self.team is not None:
            own = self.team.begin_update(self.step, rate, own)
        loss, self.gradient_norm = self.updater.update(own, rate)
        if self.average is not None:
            self.average.update()
        self.unread.append(loss)
        self.step += 1

    def _is_due(self) -> bool:
        return is_evaluated(self.step, self.config.train.steps, self.config.train.eval_every)

    def _diverged(self) -> bool:
        """Read the losses that wait on the device; whether the job has diverged by now."""
        if self.unread and self.diverged_step is None:
            losses = torch.stack(self.unread).tolist()
            self.unread.clear()
            for step, loss in enumerate(losses, self.step - len(losses)):
                self.curves.losses.append(loss)
                if self.watch.diverges(step, loss):
                    self.diverged_step = step + 1
                    break
        return self.diverged_step is not None

    def _progress(self) -> Progress:
        self.told_at = time.perf_counter()
        return Progress(
            step=self.step,
            loss=self.curves.losses[-1],
            learning_rate=learning_rate(self.config.train, self.step - 1),
            gradient_norm=float(self.gradient_norm),
            tokens_per_second=self.speed.recent(),
        )

    def _evaluate(self) -> list[Event]:
        """An evaluation, or the end of the job where its loss is not finite."""
        with self._kept_weights():
            losses = window_losses(self.model, self.validation, self.pass_windows)
            mixes = routing(self.model, self.validation[:1], self.step)
        loss = mean_loss(losses)
        if not math.isfinite(loss):
            self.diverged_step = self.step
            return self._end("diverged")
        in_tail = self.step >= tail_start(self.config.train.steps)
        evaluation = Evaluation(self.step, loss, losses if in_tail else ())
        self.curves.evaluations.append(evaluation)
        if mixes is None:
            return [evaluation]
        self.curves.routing.append(mixes)
        return [evaluation, mixes]

    def _kept_weights(self) -> AbstractContextManager[None]:
        """Inside, the model has the weights that are evaluated and kept."""
        return self.average.in_place() if self.average else nullcontext()

    def _save_interval(self) -> float:
        """Seconds between checkpoints: as stated, or more where keeping one takes over a fiftieth of them."""
        stated = self.execution.checkpoint_seconds
        return max(stated, 50 * self.save_seconds) if stated else 0

    def _save(self) -> list[Event]:
        if self.folder is None or self.step == self.saved_step:
            return []
        state = {
            "step": self.step,
            **self.updater.state(),
            "average": self.average.state() if self.average else {},
            "watch": self.watch.state(),
            **self.curves.state(),
        }
        began = time.perf_counter()
        event = self.folder.save(self.step, state)
        self.saved_step, self.saved_at = self.step, time.perf_counter()
        self.save_seconds = self.saved_at - began
        return [event]

    def _restore(self, state: State) -> None:
        self.updater.restore(state)
        if self.team is not None:
            self.team.restore()
        if self.average is not None:
            self.average.restore(state["average"])
        self.watch.restore(state["watch"])
        self.curves = Curves.of(state)

    def _end(self, outcome: Literal["finished", "diverged"]) -> list[Event]:
        self.ended = True
        step = self.step if self.diverged_step is None else self.diverged_step
        pairs = [(e.step, e.loss) for e in self.curves.evaluations]
        mean = tail_mean(pairs, self.config.train.steps) if outcome == "finished" else None
        result = Result(outcome, step, mean, self._measurements(mean))
        if self.folder is None:
            return [result]
        with self._kept_weights():
            weights = dict(self.model.named_parameters()) if outcome == "finished" else None
            if weights:
                self.curves.heads = head_reads(self.model, self.validation[:1])
            return [*self.folder.finish(result, self.curves, weights), result]

    def _measurements(self, mean: float | None) -> dict[str, float]:
        """Of this attempt, and of the whole job what its curves tell."""
        measured: dict[str, Any] = {
            "seconds": time.perf_counter() - self.began,
            "peak_memory_bytes": peak_memory_bytes(self.device),
            "parameters": float(sum(p.numel() for p in self.model.parameters())),
            **self.speed.measurements(self.config.train.batch_tokens),
            "mfu": utilisation(self.config, self.speed.tokens_per_second, self.device, self.execution.gpus),
            "bits_per_byte": bits_per_byte(mean, self.dataset.manifest.bytes_per_token),
            "recovered_spikes": float(self.watch.recovered),
        }
        if self.curves.routing:
            entropy = self.curves.routing[-1].entropy
            measured["routing_entropy"] = math.fsum(entropy) / len(entropy)
        return {name: value for name, value in measured.items() if value is not None}
