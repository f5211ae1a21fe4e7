"""Drills on a real Ray cluster of several nodes: what is drained or killed costs no result."""

import contextlib
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from homes import Home, wait_for
from ray_nodes import Nodes, ray_nodes

import headcount
from headcount import __version__
from headcount.sweeps.file.spec import load_spec
from headcount.sweeps.planning.plan import plan
from headcount.trainer.data import open_dataset, prepare
from headcount.trainer.events import Result
from headcount.trainer.loop import train

STEPS = 500


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    with ray_nodes() as made:
        yield made


@pytest.fixture
def home(tmp_path: Path, nodes: Nodes) -> Iterator[Home]:
    made = Home(tmp_path / "home", {"RAY_ADDRESS": nodes.address})
    yield made
    made.stop_all()


def nodes_at_work(home: Home) -> set[str]:
    rows = home.rows(
        "SELECT node FROM attempt JOIN job ON job.id = job_id WHERE attempt.ended IS NULL AND step > 9"
    )
    return {node.rpartition("/")[2] for (node,) in rows}


def test_a_drained_node_a_told_slot_and_a_killed_one_cost_no_result(home: Home, nodes: Nodes) -> None:
    """The results are, to the bit, those of the trainer alone."""
    nodes.start("one", "--num-cpus=1")
    nodes.start("two", "--num-cpus=1")
    file = home.sweep(STEPS)
    run = home.start("run", file)
    wait_for(lambda: len(nodes_at_work(home)) == 2, 90)
    nodes.drain(min(nodes_at_work(home)))
    wait_for(lambda: home.rows("SELECT id FROM attempt WHERE cause = 'preempted'"), 30)
    told = wait_for(home.slot_processes)[0]
    os.kill(told, signal.SIGTERM)
    wait_for(lambda: home.rows("SELECT count(*) FROM attempt WHERE cause = 'preempted'") == [(2,)], 30)
    os.kill(wait_for(home.slot_processes, 60)[0], signal.SIGKILL)
    output, _ = run.communicate(timeout=200)
    assert run.returncode == 0, output
    assert home.rows("SELECT count(*) FROM attempt WHERE cause = 'slot_lost'") == [(1,)]
    assert home.rows("SELECT count(*) FROM attempt WHERE cause = 'finished'") == [(3,)]
    assert home.tail_means() == _trained_here(Path(file), home.folder)


def _trained_here(file: Path, home: Path) -> dict[str, float | None]:
    planned = plan(load_spec(file), lambda data: prepare(data, home))
    means = {}
    for job in planned.jobs:
        *_, result = train(job.config, open_dataset(job.fingerprint, home))
        assert isinstance(result, Result)
        means[job.id] = result.tail_mean
    return means


@pytest.mark.parametrize(
    ("seeds", "kills", "seconds"),
    [(2, 4, 16.0), pytest.param(34, 30, 60.0, marks=[pytest.mark.drill, pytest.mark.timeout(1200)])],
    ids=["short", "long"],
)
def test_kills_at_random_moments_cost_no_result(
    home: Home, nodes: Nodes, seeds: int, kills: int, seconds: float
) -> None:
    """Slots, nodes and the scheduler; 102 jobs in the long form. Each finishes once, as the trainer alone
    would, to the bit."""
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
    output, _ = run.communicate(timeout=1000)
    assert run.returncode == 0, output
    assert all(done.values()), done
    finished = home.rows("SELECT job_id, count(*) FROM attempt WHERE cause = 'finished' GROUP BY 1")
    assert {count for _, count in finished} == {1}
    assert len(finished) == 3 * seeds
    assert home.rows("SELECT count(*) FROM attempt WHERE ended IS NULL") == [(0,)]
    assert home.tail_means() == _trained_here(Path(file), home.folder)


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


@pytest.mark.drill
def test_nodes_that_may_hold_no_slots_are_told_of_and_the_others_train(
    home: Home, nodes: Nodes, tmp_path: Path
) -> None:
    """Another version of the package, one that lacks a part, and, where we may mount, files of its own."""
    newer, older = tmp_path / "newer", tmp_path / "older"
    for folder in (newer, older):
        _copy_package(folder / "headcount")
    init = newer / "headcount" / "__init__.py"
    init.write_text(init.read_text().replace(f'"{__version__}"', '"9.9.9"'))
    (older / "headcount" / "orchestrator" / "warden.py").unlink()
    nodes.start("sound", "--num-cpus=1")
    nodes.start("newer", "--num-cpus=1", PYTHONPATH=str(newer))
    nodes.start("older", "--num-cpus=1", PYTHONPATH=str(older))
    if os.geteuid() == 0:
        hidden = f'mount -t tmpfs tmpfs {home.folder} && exec "$@"'
        home.folder.mkdir()
        private = ["unshare", "--mount", "sh", "-c", hidden, "sh"]
        nodes.start("private", "--num-cpus=1", within=private)
    run = home.start("run", home.sweep(60))

    def told() -> set[str]:
        return {words for (words,) in home.rows("SELECT words FROM notice")}

    expected = ["it has headcount 9.9.9", "No module named 'headcount.orchestrator.cluster.warden'"]
    expected += ["it does not share"] if os.geteuid() == 0 else []
    wait_for(lambda: all(any(words in line for line in told()) for words in expected), 60)
    output, _ = run.communicate(timeout=120)
    assert run.returncode == 0, output
    assert len(home.rows("SELECT DISTINCT node FROM attempt")) == 1


def _copy_package(folder: Path) -> None:
    source = Path(headcount.__file__).parent
    for room in ("kernels", "trainer", "sweeps", "orchestrator"):
        shutil.copytree(source / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    for file in source.glob("__*__.py"):
        shutil.copy(file, folder)
