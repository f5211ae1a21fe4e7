"""Hosts on one machine: each has its own address, name, processes and files. Linux, as root."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
BRIDGE = "headcount0"
SUBNET = "10.213.77"

_BEGIN = """
hostname "$NAME"
mount --make-rprivate /
mount -t tmpfs tmpfs /mnt
mkdir /mnt/code /mnt/secrets /mnt/own
mount --rbind "$CODE" /mnt/code
mount --bind "$SECRETS" /mnt/secrets
mount --bind "$OWN" /mnt/own
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib
mkdir -p "$CODE" /run/secrets /var/lib/headcount /var/lib/postgresql "$HOME"
mount --rbind /mnt/code "$CODE"
mount --bind /mnt/secrets /run/secrets
mount --bind /mnt/own /var/lib/headcount
mount --bind /mnt/own /var/lib/postgresql
cd "$HOME"
exec "$@"
"""
"""Whatever a process writes stays with its host, and but for what is under /var/lib goes with its power."""


class Network:
    """A bridge that hosts are plugged into, and the secrets that all are handed. They share nothing else."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self.secrets = folder / "secrets"
        self.secrets.mkdir()
        _remove("link", "del", BRIDGE)
        _ip("link", "add", BRIDGE, "type", "bridge")
        _ip("addr", "add", f"{SUBNET}.1/24", "dev", BRIDGE)
        _ip("link", "set", BRIDGE, "up")
        addresses = {name: f"{SUBNET}.{number}" for number, name in enumerate(names, 10)}
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in addresses.items())]
        self.hosts = {
            name: Host(self, name, address, folder / name, "\n".join(lines) + "\n")
            for name, address in addresses.items()
        }

    def close(self) -> None:
        for host in self.hosts.values():
            host.close()
        _ip("link", "del", BRIDGE)


class Host:
    """One machine of the network; what it runs is started and killed from outside, like a container."""

    def __init__(self, network: Network, name: str, address: str, folder: Path, hosts_file: str) -> None:
        self.network, self.name, self.address = network, name, address
        self.disk = folder
        folder.mkdir()
        self._space = f"headcount-{name}"
        self._link = f"hc{address.rpartition('.')[2]}"
        self._started: list[subprocess.Popen[bytes]] = []
        etc = Path("/etc/netns") / self._space
        etc.mkdir(parents=True, exist_ok=True)
        (etc / "hosts").write_text(hosts_file)
        _remove("link", "del", self._link)
        _remove("netns", "del", self._space)
        _ip("netns", "add", self._space)
        _ip("link", "add", self._link, "type", "veth", "peer", "name", "eth0", "netns", self._space)
        _ip("link", "set", self._link, "master", BRIDGE, "up")
        for words in (
            ("addr", "add", f"{address}/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("link", "set", "lo", "up"),
        ):
            _ip("-n", self._space, *words)

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], output: Path
    ) -> subprocess.Popen[bytes]:
        """Start a command in namespaces of its own, where it is process 1's only child."""
        with output.open("ab") as log:
            process = subprocess.Popen(
                self._words(command), env=self._environment(environment), stdout=log, stderr=log
            )
        self._started.append(process)
        return process

    def run(
        self, command: Sequence[str], environment: Mapping[str, str], seconds: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            self._words(command),
            env=self._environment(environment),
            capture_output=True,
            text=True,
            timeout=seconds,
        )

    def kill(self) -> None:
        """The power goes: every process of this host is gone at once."""
        for process in self._started:
            process.kill()
            process.wait()
        self._started.clear()

    def cut(self) -> None:
        """Pull the cable."""
        _ip("link", "set", self._link, "down")

    def join(self) -> None:
        _ip("link", "set", self._link, "up")

    def close(self) -> None:
        self.kill()
        _remove("link", "del", self._link)  # the namespace itself goes when its last process has
        _ip("netns", "del", self._space)
        (Path("/etc/netns") / self._space / "hosts").unlink()

    def _words(self, command: Sequence[str]) -> list[str]:
        spaces = ["--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "--ipc"]
        into = ["ip", "netns", "exec", self._space, "unshare", *spaces]
        return [*into, "sh", "-ec", _BEGIN, "sh", *command]

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        return {
            "PATH": f"{ROOT}/.venv/bin:{os.environ['PATH']}",
            "HOME": "/tmp/home",
            "LANG": "C.UTF-8",
            "NAME": self.name,
            "CODE": str(ROOT),
            "SECRETS": str(self.network.secrets),
            "OWN": str(self.disk),
            **more,
        }


def _remove(*words: str) -> None:
    """Remove what a test that was killed may have left; nothing where it is not there."""
    subprocess.run(["ip", *words], stderr=subprocess.DEVNULL)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
