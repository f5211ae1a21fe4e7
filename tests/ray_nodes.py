"""A Ray cluster of several nodes on one machine, each started as a user would."""

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
from homes import wait_for

ACCESS = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": "ab" * 16,
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
}
"""The same in all tests: a process that has talked to Ray once keeps its token."""


class Nodes:
    """A cluster whose nodes are processes of their own, started as a user would."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.started = folder, dict[str, "subprocess.Popen[bytes]"]()
        kept = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
        self.environment = {**kept, **ACCESS}
        self.address = ""
        self.start("head", "--head", "--port=0", "--num-cpus=0", f"--temp-dir={folder}")
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
            wait_for(lambda: self._alive() >= len(self.started), 60)

    def _alive(self) -> int:
        from ray._raylet import GcsClient

        nodes = GcsClient(address=self.address).get_all_node_info(timeout=5).values()
        return sum(node.state == 0 for node in nodes)

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
def ray_nodes() -> Iterator[Nodes]:
    """A cluster whose head holds no jobs; this process may talk to it meanwhile."""
    folder = Path(tempfile.mkdtemp(prefix="hc-"))  # sockets need short paths
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ACCESS.items():
            patch.setenv(name, value)
        made = Nodes(folder)
        yield made
        made.stop()
    shutil.rmtree(folder, ignore_errors=True)
