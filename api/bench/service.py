"""A service of its own for a benchmark, over a store that is there."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen


class Running(NamedTuple):
    """Where the service is, and its processes."""

    port: int
    pid: int

    @property
    def pids(self) -> list[int]:
        """Its own, and those of its workers."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text(encoding="ascii")
        return [self.pid, *map(int, children.split())]

    def cpu_seconds(self) -> float:
        """Of computing, of all its processes together."""
        told = (Path(f"/proc/{pid}/stat").read_text(encoding="utf-8") for pid in self.pids)
        ticks = (sum(map(int, line.rpartition(")")[2].split()[11:13])) for line in told)
        return sum(ticks) / os.sysconf("SC_CLK_TCK")


@contextmanager
def running(url: str, home: Path, workers: int) -> Iterator[Running]:
    """`headcount serve` on a free port of the loopback interface."""
    command = [sys.executable, "-m", "headcount", "serve", "--port", "0", "--rate", "0"]
    process = subprocess.Popen(
        [*command, "--workers", str(workers)],
        env=os.environ | {"HEADCOUNT_DATABASE_URL": url, "HEADCOUNT_HOME": str(home)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        found = re.search(r":(\d+)/", said)
        assert found, said
        with urlopen(f"http://127.0.0.1:{found[1]}/healthz") as answer:  # it may wait until all is loaded
            answer.read()
        yield Running(int(found[1]), process.pid)
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
