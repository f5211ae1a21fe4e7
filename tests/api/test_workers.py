"""Several processes answer at one address, and end with the one that started them."""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def service(tmp_path: Path) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """`headcount serve --workers 2`, and where it is."""
    command = [sys.executable, "-m", "headcount", "serve", "--port", "0", "--workers", "2"]
    environment = os.environ | {"HEADCOUNT_HOME": str(tmp_path)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = re.search(r"http://\S+/", process.stdout.readline())
    assert found
    yield process, found[0]
    process.kill()
    process.wait()
    process.stdout.close()


def workers_of(pid: int) -> set[int]:
    return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def until(condition: object, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")
def test_a_worker_that_ends_is_replaced_and_all_end_together(
    service: tuple["subprocess.Popen[str]", str],
) -> None:
    process, url = service

    def answers() -> bool:
        with urllib.request.urlopen(f"{url}healthz", timeout=10) as answer:
            return bool(answer.status == 200)

    assert answers()
    first = workers_of(process.pid)
    assert len(first) == 2
    os.kill(gone := min(first), signal.SIGKILL)
    until(lambda: len(workers_of(process.pid) - {gone}) == 2)
    assert answers()
    both = workers_of(process.pid)
    process.send_signal(signal.SIGTERM)
    process.wait(20)
    assert not any(Path(f"/proc/{pid}").exists() for pid in both)
