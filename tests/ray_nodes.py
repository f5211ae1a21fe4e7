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

import pytest
from homes import slowness, wait_for

ACCESS = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": "ab" * 16,
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
}
"""Of every process that talks to the cluster. The test's own does not: one that talked to another Ray before
would show that one's token."""

_COUNT = """
import sys
from ray._raylet import GcsClient
nodes = GcsClient(address=sys.argv[1]).get_all_node_info(timeout=5).values()
print(sum(node.state == 0 for node in nodes))
"""

_DRAIN = """
import sys, time
from ray._raylet import GcsClient
from ray.core.generated import autoscaler_pb2
reason = autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
deadline = int(1000 * (time.time() + 30))
accepted, why = GcsClient(address=sys.argv[1]).drain_node(sys.argv[2], reason, "drill", deadline)
assert accepted, why
"""


_REQUESTED = """
import sys
from ray._raylet import GcsClient
print((GcsClient(address=sys.argv[1]).internal_kv_get(b"autoscaler_resource_request") or b"[]").decode())
"""

_DECLARE = """
import sys
from ray._raylet import GcsClient
from ray.core.generated.autoscaler_pb2 import ClusterConfig, NodeGroupConfig
group = NodeGroupConfig(name="workers", max_count=2, resources={"CPU": 1, "GPU": int(sys.argv[2])})
config = ClusterConfig(node_group_configs=[group])
GcsClient(address=sys.argv[1]).report_cluster_config(config.SerializeToString())
"""


class Nodes:
    """A cluster whose nodes are processes of their own, started as a user would."""

    def __init__(self, folder: Path, *head: str, **more: str) -> None:
        """`head` are options of the head's beside the usual ones; `more` is added to its environment."""
        self.folder, self.started = folder, dict[str, "subprocess.Popen[bytes]"]()
        kept = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
        self.environment = {**kept, **ACCESS}
        self.address = ""
        self.start("head", "--head", "--num-cpus=0", f"--temp-dir={folder}", *(head or ["--port=0"]), **more)
        file = folder / "ray_current_cluster"
        self.address = wait_for(lambda: file.exists() and file.read_text().strip(), 60)

    def start(self, name: str, *options: str, within: Sequence[str] = (), **more: str) -> None:
        """Start a node and wait for it; `within` is a command that runs it, `more` is added to its
        environment."""
        ray = shutil.which("ray", path=str(Path(sys.executable).parent)) or "ray"
        flags = ["--block", "--include-dashboard=false", "--object-store-memory=80000000"]
        joined = [f"--address={self.address}"] if self.address else []
        self.started[name] = subprocess.Popen(
            [*within, ray, "start", *joined, *(flags if not joined else [flags[0], flags[2]]), *options],
            env={**self.environment, **more},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        if self.address:  # nodes that start at once on one machine take each other's ports
            wait_for(lambda: self.alive() >= len(self.started), 60)

    def drain(self, node: str) -> None:
        """Tell the node of that id that it goes in 30 s, as a cloud does before it takes one back."""
        self._ask(_DRAIN, node)

    def declare_maximum(self, gpus: int) -> None:
        """State that the cluster may grow to two nodes of so many GPUs, as what starts its nodes does."""
        self._ask(_DECLARE, str(gpus))

    def requested(self) -> list[dict[str, float]]:
        """What the autoscaler was asked for last."""
        bundles: list[dict[str, float]] = json.loads(self._ask(_REQUESTED))
        return bundles

    def alive(self) -> int:
        """How many nodes are, with the head."""
        return int(self._ask(_COUNT))

    def _ask(self, code: str, *arguments: str) -> str:
        asked = subprocess.run(
            [sys.executable, "-c", code, self.address, *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=60 * slowness(),
        )
        return asked.stdout

    def kill(self, name: str) -> None:
        """A node dies at once, with all that runs on it."""
        process = self.started.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
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
