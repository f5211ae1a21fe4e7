"""A slot: a process that trains jobs one after another and keeps what they tell until it is stored.

The scheduler makes it a detached Ray actor. Everything here is plain Python; the trainer is imported once, so
that a second job starts at once.
"""

import os
import signal
import socket
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any

from headcount import __version__
from headcount.orchestrator.artifacts.address import Artifacts, ArtifactsUnavailable
from headcount.orchestrator.artifacts.attempts import clear_before, take_over
from headcount.orchestrator.artifacts.copies import JobCopies
from headcount.orchestrator.artifacts.datasets import fetch_dataset
from headcount.orchestrator.artifacts.sending import Unsent
from headcount.orchestrator.artifacts.weights import find_weights
from headcount.orchestrator.cluster.local_ray import hold
from headcount.orchestrator.slots.freeing import free_memory
from headcount.orchestrator.slots.output import CappedOutput
from headcount.orchestrator.store.memory import RESERVED
from headcount.orchestrator.store.recording import Record
from headcount.orchestrator.store.transitions import Work, attempt_folder, job_folder
from headcount.trainer.config import NUMERICS, job_from_fields
from headcount.trainer.data import Dataset, open_dataset
from headcount.trainer.errors import Stopped, UserError
from headcount.trainer.events import Result, to_record
from headcount.trainer.execution import Execution

UNREAD_SECONDS = 15 * 60
"""After this long without a reader a slot writes a checkpoint and leaves."""

STOP_SECONDS = 60
"""How long a job may take to reach its next update when the slot leaves."""

TOLD_SECONDS = 20
"""How long a slot that was told to end stays for its last events to be read."""


MOMENT_SECONDS = 0.01


@dataclass(frozen=True)
class Place:
    """Where a slot is, and with what it trains."""

    where: str
    """The node, as attempts record it."""
    pid: int
    cards: tuple[int, ...]
    """As Ray numbers them on the node."""
    version: str
    numerics: int


class Slot:
    """Runs one job at a time on a thread; all methods may be called at once, from several threads."""

    def __init__(
        self, home: str, artifacts: str, on_local_ray: bool, artifacts_url: str | None = None
    ) -> None:
        """`artifacts` is a folder that all nodes share, or this node's own where `artifacts_url` is given."""
        import headcount.trainer.loop  # noqa: F401 (torch is loaded before the first job)

        self._home, self._artifacts = Path(home), Path(artifacts)
        self._remote = Artifacts(artifacts_url) if artifacts_url else None
        if self._remote is not None:
            self._remote.check()
        self._hold: IO[bytes] | None = hold(self._home) if on_local_ray else None
        self._news = threading.Condition()
        self._gpus = 1
        """Of its jobs, as `where` finds them."""
        self._work: Work | None = None
        self._records: list[Record] = []
        self._first = 0
        """The number of `_records[0]`: those before are stored."""
        self._stop_cause: str | None = None
        self._output: CappedOutput | None = None
        self._read_at = time.monotonic()
        self._told_to_end = False
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._on_sigterm)
        threading.Thread(target=self._watch, daemon=True).start()

    def where(self) -> Place:
        import ray

        node = ray.get_runtime_context().get_node_id()
        cards = tuple(int(card) for card in ray.get_gpu_ids() if str(card).isdigit())
        self._gpus = max(1, len(cards))
        return Place(f"{socket.gethostname()}/{node}", os.getpid(), cards, __version__, NUMERICS)

    def attempt(self) -> int | None:
        """The attempt that this slot runs, or ran last; none before the first."""
        with self._news:
            self._read_at = time.monotonic()
            return self._work.attempt_id if self._work else None

    def start(self, work: Work, wait: float) -> tuple[int, list[Record]]:
        """Run an attempt, unless this slot has it already, and wait for its first events as `events` does."""
        with self._news:
            if self._work is None or self._work.attempt_id != work.attempt_id:
                assert not self._is_busy()
                self._work, self._records, self._first, self._stop_cause = work, [], 0, None
                threading.Thread(target=self._run, args=(work,), daemon=True).start()
        return self.events(work.attempt_id, -1, wait)

    def events(self, attempt_id: int, after: int, wait: float) -> tuple[int, list[Record]]:
        """The events numbered above `after`, which says that all up to it are stored, and the first's number.

        Waits for at most `wait` seconds until there is one, and then a moment for the last: short jobs are
        told at once.
        """
        with self._news:
            assert self._work is not None
            assert self._work.attempt_id == attempt_id, "another attempt's slot"
            self._read_at = time.monotonic()
            stored = max(0, after + 1 - self._first)
            del self._records[:stored]
            self._first += stored
            self._news.notify_all()
            if self._news.wait_for(lambda: self._records, wait):
                self._news.wait_for(lambda: not self._is_busy(), MOMENT_SECONDS)
            self._read_at = time.monotonic()
            return self._first, list(self._records)

    def stop(self, attempt_id: int, cause: str) -> None:
        """Ask the attempt to write a checkpoint and end, with `cause`."""
        with self._news:
            if self._work is not None and self._work.attempt_id == attempt_id:
                self._stop_cause = cause

    def _tell(self, *records: Record) -> None:
        with self._news:
            self._records.extend(records)
            self._news.notify_all()

    def _run(self, work: Work) -> None:
        """An attempt from its start to its last words: its result, if any, and its cause."""
        result: list[Record] = []
        copies = self._copies(work)
        try:
            output = self._output = CappedOutput(self._artifacts / work.log)
            with output.caught():
                cause, message = self._train(work, result, copies)
            if message:
                output.write(message.rstrip("\n") + "\n")
            self._output = None
            output.close()
            if copies is not None:
                copies.end(output.path, work.log)
        except OSError as error:
            cause, message = "user_error", f"cannot write {self._artifacts / work.log}: {error.strerror}"
        clean = cause in ("finished", "diverged") and free_memory() and not self._told_to_end
        self._tell(*result, {"kind": "ended", "cause": cause, "message": message, "reusable": clean})

    def _copies(self, work: Work) -> JobCopies | None:
        if self._remote is None:
            return None
        key = job_folder(work.job_id)
        return JobCopies(self._artifacts / key, key, work.number, self._remote, self._is_stopping)

    def _is_stopping(self) -> bool:
        return self._stop_cause is not None

    def _train(self, work: Work, result: list[Record], copies: JobCopies | None) -> tuple[str, str | None]:
        """The attempt's cause, and what to tell the user of it. The result is put aside, not told."""
        from headcount.trainer.loop import train

        try:
            if self._remote is not None:
                fetch_dataset(work.fingerprint, self._home, self._remote)
            dataset = open_dataset(work.fingerprint, self._home)
        except UserError as error:
            return _cause(error, "data_differs"), str(error)
        if work.kind != "train":
            return self._measure(work, dataset, result)
        job = self._artifacts / job_folder(work.job_id)
        folder = self._artifacts / attempt_folder(work.job_id, work.number)
        try:
            if copies is not None:
                copies.fetch()
            else:
                take_over(job, work.number)
            config = job_from_fields(work.config, work.seed)
            execution = Execution(micro_batch=work.micro_batch, gpus=self._gpus)
            weights = config.init.weights
            events = train(
                config,
                dataset,
                folder=folder,
                execution=execution,
                stop=self._is_stopping,
                weights=find_weights(weights, self._artifacts, self._remote) if weights else None,
            )
            for event in copies.sent(events) if copies else events:
                if isinstance(event, Unsent):
                    self._tell({"kind": "unsent", "step": event.step, "message": event.message})
                elif isinstance(event, Result):
                    record = to_record(event)
                    record["measurements"] |= _reserved_memory()
                    result.append(record)
                    clear_before(job, work.number)
                    return event.outcome, None
                else:
                    self._tell(to_record(event))
        except ArtifactsUnavailable as error:
            return self._stop_cause or _cause(error), str(error)
        except Exception as error:
            return _cause(error), _explain(error)
        assert self._stop_cause is not None
        return self._stop_cause, None

    def _measure(self, work: Work, dataset: Dataset, result: list[Record]) -> tuple[str, str | None]:
        """As `_train`, of an instrument; one that was stopped half-way begins anew."""
        from headcount.orchestrator.slots.instruments import measure

        try:
            records = measure(work, dataset, self._home, self._artifacts, self._remote, self._is_stopping)
            for record in records:
                if record["kind"] == "result":
                    result.append(record)
                    return record["outcome"], None
                self._tell(record)
        except Stopped:
            assert self._stop_cause is not None
            return self._stop_cause, None
        except ArtifactsUnavailable as error:
            return self._stop_cause or _cause(error), str(error)
        except Exception as error:
            return _cause(error), _explain(error)
        raise AssertionError("an instrument ends with its result")

    def _watch(self) -> None:
        """Bound the output, and leave when told to, or when nobody reads."""
        while time.monotonic() - self._read_at < UNREAD_SECONDS and not self._told_to_end:
            if output := self._output:
                output.check()
            time.sleep(1)
        with self._news:
            self._stop_cause = "preempted"
            self._news.wait_for(lambda: not self._is_busy(), STOP_SECONDS)
            if self._told_to_end:
                self._news.wait_for(lambda: not self._records, TOLD_SECONDS)
        os._exit(0)

    def _on_sigterm(self, number: int, frame: FrameType | None) -> None:
        """The node is about to go: the job writes a checkpoint and goes on elsewhere.

        A signal comes between any two steps of the main thread, so that no lock may be taken here.
        """
        self._stop_cause, self._told_to_end = "preempted", True

    def _is_busy(self) -> bool:
        return self._work is not None and not (self._records and self._records[-1]["kind"] == "ended")


def _reserved_memory() -> dict[str, float]:
    """What the job's allocator held of the card at most: with its cache and graphs."""
    import torch

    return {RESERVED: float(torch.cuda.max_memory_reserved())} if torch.cuda.is_initialized() else {}  # type: ignore[no-untyped-call]


def _cause(error: Exception, otherwise: str = "user_error") -> str:
    import torch

    if isinstance(error, ArtifactsUnavailable):
        return "slot_lost"  # of this node: the job goes on elsewhere
    if isinstance(error, torch.OutOfMemoryError):
        return "gpu_memory"
    return "host_memory" if isinstance(error, MemoryError) else otherwise


def _explain(error: Exception) -> str:
    """A user's mistake in its own words; anything else with its traceback."""
    return str(error) if isinstance(error, UserError) else "".join(traceback.format_exception(error))


def actor_options(name: str, cards: int, share: float) -> dict[str, Any]:
    """Ray's options for a slot: detached, its cards fixed for life, restarted by nobody.

    `cards` are how many it holds, `share` how much of each; without cards it holds one processor.
    """
    return {
        "name": name,
        "lifetime": "detached",
        "num_cpus": min(1.0, share) if cards else 1,
        "num_gpus": cards * share if cards else 0,
        "max_restarts": 0,
        "max_task_retries": 0,
        "max_concurrency": 8,
    }
