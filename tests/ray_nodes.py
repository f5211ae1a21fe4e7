"""A Ray cluster of several nodes on one machine, each started as a user would."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from homes import wait_for

ACCESS = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": "ab" * 16,
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
}
"""Of every process that talks to the cluster. The test's own does not: one that talked to another Ray before
would show that one's token."""

_ASKED = """
import json, sys, time
from ray._raylet import GcsClient
from ray.core.generated import autoscaler_pb2

gcs = GcsClient(address=sys.argv[1])


def alive():
    return sum(node.state == 0 for node in gcs.get_all_node_info(timeout=5).values())


def drain(node):
    reason = autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
    accepted, why = gcs.drain_node(node, reason, "drill", int(1000 * (time.time() + 30)))
    assert accepted, why


def declare_maximum(gpus):
    group = autoscaler_pb2.NodeGroupConfig(name="workers", max_count=2, resources={"CPU": 1, "GPU": gpus})
    config = autoscaler_pb2.ClusterConfig(node_group_configs=[group])
    gcs.report_cluster_config(config.SerializeToString())


def requested():
    return json.loads((gcs.internal_kv_get(b"autoscaler_resource_request") or b"[]").decode())


for line in sys.stdin:
    name, *arguments = json.loads(line)
    print(json.dumps(globals()[name](*arguments)), flush=True)
"""
"""A process that answers for the cluster, a line each: one for each question takes half a second to start."""


class Nodes:
    """A cluster whose nodes are processes of their own, started as a user would."""

    def __init__(self, folder: Path, *head: str, **more: str) -> None:
        """`head` are options of the head's beside the usual ones; `more` is added to its environment."""
        self.folder, self.started = folder, dict[str, "subprocess.Popen[bytes]"]()
        kept = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
        self.environment = {**kept, **ACCESS}
        self.address = ""
        self._asked: subprocess.Popen[str] | None = None
        self.start("head", "--head", "--num-cpus=0", f"--temp-dir={folder}", *(head or ["--port=0"]), **more)
        file = folder / "ray_current_cluster"
        self.address = wait_for(lambda: file.exists() and file.read_text().strip(), 60)

    def start(self, name: str, *options: str, within: Sequence[str] = (), **more: str) -> None:
        """Start a node and wait for it; `within` is a command that runs it, `more` is added to its
        environment."""
        ray = shutil.which("ray", path=str(Path(sys.executable).parent)) or "ray"
        flags = ["--block", "--object-store-memory=80000000", "--include-log-monitor=false"]
        joined = [f"--address={self.address}"] if self.address else ["--include-dashboard=false"]
        self.started[name] = subprocess.Popen(
            [*within, ray, "start", *joined, *flags, *options],
            env={**self.environment, **more},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        if self.address:  # nodes that start at once on one machine take each other's ports
            wait_for(lambda: self.alive() >= len(self.started), 60)

    def drain(self, node: str) -> None:
        """Tell the node of that id that it goes in 30 s, as a cloud does before it takes one back."""
        self._ask("drain", node)

    def declare_maximum(self, gpus: int) -> None:
        """State that the cluster may grow to two nodes of so many GPUs, as what starts its nodes does."""
        self._ask("declare_maximum", gpus)

    def requested(self) -> list[dict[str, float]]:
        """What the autoscaler was asked for last."""
        bundles: list[dict[str, float]] = self._ask("requested")
        return bundles

    def alive(self) -> int:
        """How many nodes are, with the head."""
        return int(self._ask("alive"))

    def _ask(self, *words: str | int) -> Any:
        if self._asked is None:
            self._asked = subprocess.Popen(
                [sys.executable, "-c", _ASKED, self.address],
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._asked.stdin is not None
        assert self._asked.stdout is not None
        self._asked.stdin.write(json.dumps(words) + "\n")
        self._asked.stdin.flush()
        answer = self._asked.stdout.readline()
        assert answer, "the cluster does not answer"
        return json.loads(answer)

    def kill(self, name: str) -> None:
        """A node dies at once, with all that runs on it."""
        process = self.started.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        if self._asked is not None:
            with self._asked as asked:  # which closes what it reads and writes
                asked.kill()
        for process in self.started.values():
            process.terminate()
        for process in self.started.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@contextmanager
def ray_nodes(*head: str, **more: str) -> Iterator[Nodes]:
    """A cluster whose head holds no jobs; commands that are started meanwhile may talk to it."""
    folder = Path(tempfile.mkdtemp(prefix="hc-"))  # sockets need short paths
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ACCESS.items():
            patch.setenv(name, value)
        made = Nodes(folder, *head, **more)
        yield made
        made.stop()
    shutil.rmtree(folder, ignore_errors=True)
