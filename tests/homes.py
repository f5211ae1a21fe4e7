"""A Headcount home in a folder of its own, used through the command line as a user would."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import forked

T = TypeVar("T")

SWEEP = """
name: small
job:
  model: {{scale: nano, residual: mhar}}
  data: {{text: {text}, context: 64}}
  train: {{steps: {steps}, batch_tokens: 256, eval_every: 5, eval_windows: 4}}
axes:
  model.routing_heads: [1, 2]
"""
"""Two treatments and their control: three jobs."""


class Home:
    """One store with its artifacts; `environment` is added to that of every command."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        unset = {"RAY_ADDRESS", "HEADCOUNT_DATABASE_URL", "HEADCOUNT_ARTIFACTS"}
        inherited = {k: v for k, v in os.environ.items() if k not in unset}
        self.environment = {**inherited, "HEADCOUNT_HOME": str(folder), **environment}
        self.started: list[subprocess.Popen[str]] = []

    def sweep(self, steps: int, more: str = "") -> str:
        """Write a sweep's file and its text; the file's path."""
        text = self.folder.parent / "text"
        if not text.exists():
            write_text(text)
        file = self.folder.parent / "small.yaml"
        file.write_text(SWEEP.format(text=text, steps=steps) + more)
        return str(file)

    def headcount(self, *arguments: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        with subprocess.Popen(
            self._command(arguments),
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder.parent,
        ) as process:
            try:
                output, errors = ended(process, seconds)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def typed(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """As `headcount`, but sooner begun: in a fork of this process. For commands that train nothing."""
        return forked.typed(arguments, self.environment, self.folder.parent)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command; `stop_all` ends what is left of it."""
        process = subprocess.Popen(
            self._command(arguments),
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder.parent,
        )
        self.started.append(process)
        return process

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-P", "-m", "headcount", *arguments]

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What a direct SQL query finds; nothing before there is a store."""
        file = self.folder / "headcount.db"
        if not file.exists():
            return []
        connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
        try:
            return connection.execute(query).fetchall()
        except sqlite3.OperationalError:  # before the first migration
            return []
        finally:
            connection.close()

    def tail_means(self) -> dict[str, float]:
        return dict(self.rows("SELECT id, tail_mean FROM job WHERE state = 'finished'"))

    def running(self, step: int = 1) -> list[tuple[Any, ...]]:
        """Attempts on slots whose jobs have come to `step`: id, job, number."""
        return self.rows(
            "SELECT attempt.id, job.id, number FROM attempt JOIN job ON job.id = job_id "
            f"WHERE attempt.ended IS NULL AND job.state = 'running' AND step >= {step}"
        )

    def slot_processes(self) -> list[int]:
        """The processes that train now, told by where their output goes."""
        found = []
        for entry in Path("/proc").glob("[0-9]*/fd/1"):
            try:
                if str(entry.readlink()).startswith(str(self.folder / "artifacts" / "jobs")):
                    found.append(int(entry.parts[2]))
            except OSError:
                continue
        return found

    def scheduler_process(self) -> int:
        [(holder,)] = self.rows("SELECT holder FROM lease")
        return int(holder.split()[1])

    def stop_all(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.started:
            try:
                ended(process, 60)
            finally:
                process.kill()


def slowness() -> float:
    """How many times as long as on a quiet machine things may take now: tests are right on a busy one too."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def wait_for(condition: Callable[[], T], seconds: float = 60) -> T:
    """The first true value of `condition`; fails after so many seconds of a quiet machine."""
    began = time.monotonic()
    while not (value := condition()):
        assert time.monotonic() < began + seconds * slowness(), "waited in vain"
        time.sleep(0.05)
    return value


def ended(process: subprocess.Popen[str], seconds: float) -> tuple[str, str]:
    """What a command has printed once it has ended; fails after so many seconds of a quiet machine."""
    began = time.monotonic()
    while True:
        try:
            return process.communicate(timeout=1)
        except subprocess.TimeoutExpired:
            assert time.monotonic() < began + seconds * slowness(), "it has not ended"


def write_text(folder: Path) -> None:
    """Some hundred kilobytes of words, the same each time."""
    words = [
        "the",
        "slot",
        "trains",
        "a",
        "job",
        "and",
        "tells",
        "what",
        "it",
        "finds",
        "of",
        "every",
        "loss",
    ]
    draw = random.Random(0)
    folder.mkdir()
    for number in range(4):
        text = " ".join(draw.choices(words, k=12_000))
        (folder / f"{number}.txt").write_text(text)


def trained_alone(file: Path, home: Path) -> dict[str, float | None]:
    """Job to tail mean of a sweep's file, by the trainer in this process: no cluster, no store."""
    from headcount.sweeps.file.spec import load_spec
    from headcount.sweeps.planning.plan import plan
    from headcount.trainer.data import open_dataset, prepare
    from headcount.trainer.events import Result
    from headcount.trainer.loop import train

    means = {}
    for job in plan(load_spec(file), lambda data: prepare(data, home)).jobs:
        *_, result = train(job.config, open_dataset(job.fingerprint, home))
        assert isinstance(result, Result)
        means[job.id] = result.tail_mean
    return means
