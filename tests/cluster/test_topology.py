"""A sweep on a team's cluster, by the commands of docker/compose.yaml, while hosts fail."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cluster.services import Topology
from homes import Home, write_text

from headcount.api.service import DEFAULT_PORT

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(540)]

NOTICE_SECONDS = 30
"""What the host is told it has left."""

API = f"http://api:{DEFAULT_PORT}/api/v1"

SWEEP = """
name: topology
job:
  model: {scale: nano, residual: mhar}
  data: {source: prose, context: 64}
  train: {steps: 300, batch_tokens: 256, eval_every: 20, eval_windows: 4}
axes:
  model.routing_heads: [1, 2]
  model.kv_heads: [2, 4]
seeds: [0, 1]
"""
"""Eight treatments and four controls."""


@pytest.fixture
def topology(tmp_path: Path) -> Iterator[Topology]:
    made = Topology(tmp_path)
    yield made
    made.close()


def test_a_sweep_ends_whole_whatever_host_fails(
    topology: Topology, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = topology.start_all()
    text = topology.host("scheduler").disk / "prose"
    write_text(text)
    topology.once("scheduler", "headcount", "data", "prepare", "prose", "/var/lib/headcount/prose")
    topology.once("scheduler", "headcount", "data", "publish", "prose")

    client = _Client(topology, token)
    topology.wait(client.reaches, "the service to answer")
    client.submit(SWEEP)
    client.follow(tmp_path / "stream.log")

    topology.wait(lambda: client.finished() >= 2, "two jobs to finish", 180)
    topology.host("worker-1").cut()
    topology.wait(lambda: client.finished() >= 3, "the sweep to go on without a worker", 180)
    topology.host("worker-1").join()

    topology.kill("ray-head")
    topology.start("ray-head")
    topology.wait(lambda: client.finished() >= 5, "the sweep to go on under a new head", 240)

    told, seconds = take_away("worker-2", topology, client)
    topology.start("worker-2")

    topology.kill("postgres")
    topology.start("postgres")
    topology.wait(lambda: client.finished() == 12, "the sweep to end", 300)

    assert client.causes() >= {"finished", "node_lost", "preempted"}
    lost = steps_trained_again(client, told)
    with capsys.disabled():
        print(f"\nafter a notice: {len(told)} jobs yielded in {seconds:.1f} s, {lost} steps trained again")
    assert lost == 0
    assert seconds < NOTICE_SECONDS
    assert client.table() == undisturbed(tmp_path / "alone", text)
    assert len(re.findall("^event: ", (tmp_path / "stream.log").read_text(), re.MULTILINE)) > 16


class _Client:
    """A machine that has nothing but curl, a token and the service's address."""

    def __init__(self, topology: Topology, token: str) -> None:
        self._host = topology.host("client")
        self._curl = ["curl", "--silent", "--show-error", "--fail-with-body"]
        self._curl += ["--header", f"Authorization: Bearer {token}"]

    def reaches(self) -> bool:
        return self._ask("/sweeps").returncode == 0

    def submit(self, sweep: str) -> None:
        done = self._ask("/sweeps", "--header", "Content-Type: application/yaml", "--data-binary", sweep)
        assert done.returncode == 0, done.stdout + done.stderr

    def finished(self) -> int:
        """How many jobs have finished; 0 while the service is out of reach."""
        done = self._ask("/sweeps/topology")
        return int(json.loads(done.stdout)["states"]["finished"]) if done.returncode == 0 else 0

    def causes(self) -> set[str]:
        """How attempts at the sweep's jobs have ended."""
        return {attempt["cause"] for job in self.jobs() for attempt in job["attempts"]}

    def jobs(self, state: str = "") -> list[dict[str, Any]]:
        """The sweep's jobs with their attempts."""
        jobs = json.loads(self._ask("/sweeps/topology/jobs").stdout)["items"]
        wanted = [job["id"] for job in jobs if not state or job["state"] == state]
        return [json.loads(self._ask(f"/jobs/{job}").stdout) for job in wanted]

    def table(self) -> dict[str, Any]:
        return losses(self._ask("/sweeps/topology/table.json").stdout)

    def follow(self, output: Path) -> None:
        """Listen to the live events, as long as the host stands."""
        self._host.start([*self._curl, "--no-buffer", f"{API}/events?sweep=topology"], {}, output)

    def _ask(self, path: str, *words: str) -> subprocess.CompletedProcess[str]:
        return self._host.run([*self._curl, "--max-time", "20", *words, API + path], {})


def take_away(host: str, topology: Topology, client: _Client) -> tuple[dict[str, int], float]:
    """Give a host the notice that spot capacity gets, and take its power once its jobs have yielded.

    The jobs that ran there with the last step that was told of each before the notice; and the seconds that
    they took to write a checkpoint, send it and yield.
    """
    running: list[dict[str, Any]] = []

    def is_at_work() -> bool:
        running[:] = [
            job
            for job in client.jobs("running")
            if job["attempts"][-1]["node"].startswith(f"{host}/") and 0 < job["step"] < 150
        ]
        return bool(running)

    topology.wait(is_at_work, f"{host} to be in the middle of a job", 240)
    node = running[0]["attempts"][-1]["node"].rpartition("/")[2]
    drain = ["ray", "drain-node", "--address=localhost:6379", f"--node-id={node}"]
    drain += ["--reason=DRAIN_NODE_REASON_PREEMPTION", "--reason-message=spot"]
    topology.once("ray-head", *drain, f"--deadline-remaining-seconds={NOTICE_SECONDS}")
    began = time.monotonic()
    told = {job["id"]: job["step"] for job in running}
    topology.wait(
        lambda: not [job for job in client.jobs("running") if _is_on(job, node)], f"{host} to yield"
    )
    seconds = time.monotonic() - began
    topology.kill(host)
    return told, seconds


def _is_on(job: dict[str, Any], node: str) -> bool:
    return bool(job["attempts"][-1]["node"].endswith(node))


def steps_trained_again(client: _Client, told: dict[str, int]) -> int:
    """Of the jobs that were told to yield, what was trained twice although it was known before the notice."""
    lost = 0
    for job in client.jobs():
        if job["id"] not in told:
            continue
        for attempt, following in pairwise(job["attempts"]):
            if attempt["cause"] == "preempted":
                lost += max(0, told[job["id"]] - following["start_step"])
    return lost


def losses(table: str) -> dict[str, Any]:
    """The tail means by seed of each cell, from a table in JSON."""
    rows = json.loads(table)["rows"]
    return {json.dumps(row["settings"]): dict(zip(row["seeds"], row["losses"], strict=True)) for row in rows}


def undisturbed(folder: Path, text: Path) -> dict[str, Any]:
    """What one machine alone finds for the same sweep."""
    folder.mkdir()
    sweep = folder / "sweep.yaml"
    sweep.write_text(SWEEP)
    home = Home(folder / "home", {})
    for words in (["data", "prepare", "prose", str(text)], ["run", str(sweep)]):
        done = home.headcount(*words, seconds=300)
        assert done.returncode == 0, done.stdout + done.stderr
    return losses(home.headcount("table", "topology", "--format", "json").stdout)
