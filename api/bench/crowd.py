"""Two hundred readers beside a writer: what each costs the other."""

import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from headcount.api.bench.client import Connection
from headcount.orchestrator.bench.figures import Times

PAUSE_SECONDS = (0.5, 1.5)
"""Between two questions of a reader: busier than a page, which asks every few seconds."""


class Reading(NamedTuple):
    """What the readers saw."""

    times: Times
    errors: list[str]
    not_modified: int


def read(port: int, paths: Sequence[str], readers: int, seconds: float) -> Reading:
    """`readers` connections, each asking for one path after another as if it had asked before."""
    return asyncio.run(_read(port, paths, readers, seconds))


async def _read(port: int, paths: Sequence[str], readers: int, seconds: float) -> Reading:
    found = Reading(Times(), [], 0)
    known = [0]
    end = time.monotonic() + seconds

    async def reader(number: int) -> None:
        rng = random.Random(number)
        connection = Connection(port)
        etags: dict[str, str] = {}
        await asyncio.sleep(rng.uniform(0, PAUSE_SECONDS[1]))  # they do not come all at once
        try:
            while time.monotonic() < end:
                path = rng.choice(paths)
                answer = await connection.get(path, etags.get(path))
                found.times.values.append(answer.milliseconds)
                if answer.status not in (200, 304):
                    found.errors.append(f"{answer.status} {path}: {answer.body[:200]!r}")
                known[0] += answer.status == 304
                etags[path] = answer.headers.get("etag", "")
                await asyncio.sleep(rng.uniform(*PAUSE_SECONDS))
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            found.errors.append(f"{type(error).__name__}: {error}")
        finally:
            connection.close()

    await asyncio.gather(*map(reader, range(readers)))
    return found._replace(not_modified=known[0])


class Writing(NamedTuple):
    """What the writer saw."""

    times: Times
    """Of its transactions."""
    events_per_second: float


def start_writer(url: str, sweep: str, seconds: float, events_per_second: int) -> "subprocess.Popen[str]":
    """A process of its own that stores events of running jobs at an even pace."""
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "headcount.api.bench.writer",
            url,
            sweep,
            str(seconds),
            str(events_per_second),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )


def end_writer(process: "subprocess.Popen[str]") -> Writing:
    """Wait for it."""
    said, _ = process.communicate()
    assert process.returncode == 0, "the writer failed"
    told = json.loads(said)
    return Writing(Times(told["times"]), told["events_per_second"])


def start_burning(milliseconds: float, per_second: float, seconds: float) -> "subprocess.Popen[bytes]":
    """A process that computes as a service does that is asked so often, and asks no store anything."""
    told = (str(milliseconds), str(per_second), str(seconds))
    return subprocess.Popen([sys.executable, "-m", "headcount.api.bench.burning", *told])
