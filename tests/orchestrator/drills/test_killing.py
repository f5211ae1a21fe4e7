"""Slots, nodes and the scheduler killed at random moments: what was lost is trained again, to the bit."""

import contextlib
import os
import random
import signal
import time
from pathlib import Path

import pytest
from homes import Home, ended, trained_alone, wait_for
from ray_nodes import Nodes


@pytest.mark.parametrize(
    ("seeds", "kills", "seconds"),
    [(2, 4, 16.0), pytest.param(34, 30, 60.0, marks=pytest.mark.drill)],
    ids=["short", "long"],
)
def test_kills_at_random_moments_cost_no_result(
    home: Home, nodes: Nodes, seeds: int, kills: int, seconds: float
) -> None:
    """102 jobs in the long form. Each finishes once, as the trainer alone would, to the bit."""
    draw = random.Random(seeds)
    for name in ("one", "two", "three"):
        nodes.start(name, "--num-cpus=1")
    file = home.sweep(60, f"seeds: {list(range(seeds))}\n")
    run = home.start("run", file)
    wait_for(lambda: home.running(step=1), 90)
    moments = sorted(draw.uniform(0, seconds) for _ in range(kills))
    begun, done = time.monotonic(), dict.fromkeys(("slot", "node", "scheduler"), 0)
    for number, moment in enumerate(moments):
        time.sleep(max(0.0, begun + moment - time.monotonic()))
        victim = ("slot", "slot", "node", "scheduler", "slot")[number % 5]
        done[victim] += _kill(victim, home, nodes, draw)
    took = time.monotonic() - begun
    output, _ = ended(run, 1000)
    assert run.returncode == 0, output
    assert all(done.values()), done
    finished = home.rows("SELECT job_id, count(*) FROM attempt WHERE cause = 'finished' GROUP BY 1")
    assert {count for _, count in finished} == {1}
    assert len(finished) == 3 * seeds
    assert home.rows("SELECT count(*) FROM attempt WHERE ended IS NULL") == [(0,)]
    assert home.tail_means() == trained_alone(Path(file), home.folder)
    causes = home.rows("SELECT cause, count(*) FROM attempt GROUP BY cause ORDER BY cause")
    killed = ", ".join(f"{victim} {count}" for victim, count in done.items())
    print(f"killed in {took:.0f} s: {killed}; {len(finished)} jobs finished once each, to the bit")
    print("attempts ended as " + ", ".join(f"{cause} {count}" for cause, count in causes))


def _kill(victim: str, home: Home, nodes: Nodes, draw: random.Random) -> int:
    """Kill what is there of that kind, and see to another of a node; how many were killed."""
    if victim == "node":
        name = draw.choice([name for name in nodes.started if name != "head"])
        nodes.kill(name)
        nodes.start(f"{name}'", "--num-cpus=1")
        return 1
    pids = home.slot_processes() if victim == "slot" else [home.scheduler_process()]
    if not pids:
        return 0
    with contextlib.suppress(ProcessLookupError):
        os.kill(draw.choice(pids), signal.SIGKILL)
    return 1
