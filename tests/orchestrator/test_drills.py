"""Drills on a real Ray cluster of several nodes: what is drained or killed costs no result."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from homes import Home, wait_for

from headcount.sweeps.plan import plan
from headcount.sweeps.spec import load_spec
from headcount.trainer.data import open_dataset, prepare
from headcount.trainer.events import Result
from headcount.trainer.loop import train

STEPS = 500


class Nodes:
    """A cluster whose nodes are processes of their own, started as a user would."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.started = folder, dict[str, "subprocess.Popen[bytes]"]()
        kept = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
        self.environment = {**kept, "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
        self.address = ""
        self.start("head", "--head", "--port=0", "--num-cpus=0", f"--temp-dir={folder}")
        file = folder / "ray_current_cluster"
        self.address = wait_for(lambda: file.exists() and file.read_text().strip(), 60)

    def start(self, name: str, *options: str) -> None:
        ray = shutil.which("ray", path=str(Path(sys.executable).parent)) or "ray"
        flags = ["--block", "--include-dashboard=false", "--object-store-memory=80000000"]
        joined = [f"--address={self.address}"] if self.address else []
        self.started[name] = subprocess.Popen(
            [ray, "start", *joined, *(flags if not joined else [flags[0], flags[2]]), *options],
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        if self.address:
            wait_for(lambda: self._alive() >= len(self.started), 60)

    def _alive(self) -> int:
        from ray._raylet import GcsClient

        return len(GcsClient(address=self.address).get_all_node_info(timeout=5))

    def stop(self) -> None:
        for process in self.started.values():
            process.terminate()
        for process in self.started.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    folder = (
        Path("/tmp") / f"hc-drill-{os.getpid()}-{time.monotonic_ns() % 10**6}"
    )  # sockets need short paths
    made = Nodes(folder)
    yield made
    made.stop()
    shutil.rmtree(folder, ignore_errors=True)


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
    _drain(nodes, min(nodes_at_work(home)))
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


def _drain(nodes: Nodes, node: str) -> None:
    from ray._raylet import GcsClient
    from ray.core.generated import autoscaler_pb2

    reason = autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
    deadline = int(1000 * (time.time() + 30))
    accepted, why = GcsClient(address=nodes.address).drain_node(node, reason, "drill", deadline)
    assert accepted, why


def _trained_here(file: Path, home: Path) -> dict[str, float | None]:
    planned = plan(load_spec(file), lambda data: prepare(data, home))
    means = {}
    for job in planned.jobs:
        *_, result = train(job.config, open_dataset(job.fingerprint, home))
        assert isinstance(result, Result)
        means[job.id] = result.tail_mean
    return means
