"""A Ray of this home's own, where no cluster is named: loopback only, behind a token, kept by `keeper`.

It outlives the scheduler that started it, so that slots go on training when a scheduler is killed; the next
scheduler finds its address in the home. It ends when nobody uses it any more: schedulers and slots hold a
shared lock on a file for as long as they live.
"""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from headcount.trainer.errors import UserError

STOP_SECONDS = 15
LEAVING_SECONDS = 5
"""How long slots that were killed may take to be gone."""


@dataclass(frozen=True)
class LocalRay:
    """A running local Ray, as its keeper writes it into the home."""

    address: str
    token: str
    folder: str
    """Ray's own files; short, since Ray puts sockets there."""
    keeper: int
    """Process id."""

    def environment(self) -> dict[str, str]:
        """What every process that talks to it needs."""
        return ray_environment(self.token)

    def answers(self) -> bool:
        host, _, port = self.address.rpartition(":")
        with suppress(OSError), socket.create_connection((host, int(port)), timeout=2):
            return True
        return False


def ray_environment(token: str) -> dict[str, str]:
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": token,
        "RAY_USAGE_STATS_ENABLED": "0",
        # Ray's switch for machines where it takes the loopback address for its own
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        # slots are the work itself: by default Ray lets everything else on the machine go first
        "RAY_worker_niceness": "0",
    }


def users_file(home: Path) -> Path:
    return home / "ray.users"


def record_file(home: Path) -> Path:
    return home / "ray.json"


def hold(home: Path) -> IO[bytes]:
    """Keep this home's Ray from leaving until the file is closed or this process ends."""
    file = open(users_file(home), "ab")  # noqa: SIM115 (held)
    fcntl.flock(file, fcntl.LOCK_SH)
    return file


def unused(home: Path) -> bool:
    """Whether no scheduler and no slot holds this home's Ray."""
    with open(users_file(home), "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def find(home: Path) -> LocalRay | None:
    """The local Ray of this home, if it is alive."""
    record = read_record(home)
    return record if record and _is_alive(record.keeper) and record.answers() else None


def start(home: Path) -> LocalRay:
    """The local Ray of this home; a new one where there is none, with what is left of an old one removed.

    Raises `UserError` where Ray does not start.
    """
    if running := find(home):
        return running
    if left := read_record(home):
        clean_up(home, left)
    log = home / "ray.log"
    command = [sys.executable, "-P", "-m", "headcount.orchestrator.cluster.keeper", str(home)]
    environment = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"}
    for _ in range(2):  # once more, should a part of it have been killed meanwhile
        with open(log, "ab") as output:
            subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, cwd="/"
            )
        if running := find(home):
            return running
    raise UserError(f"Ray did not start on this machine; see {log}, or name a cluster with --ray-address")


def stop(home: Path) -> None:
    """End the local Ray of this home, unless others still use it."""
    record = read_record(home)
    leaving = time.monotonic() + LEAVING_SECONDS
    while not unused(home) and time.monotonic() < leaving:
        time.sleep(0.05)
    if record is None or not unused(home):
        return
    with suppress(ProcessLookupError):
        os.kill(record.keeper, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while time.monotonic() < deadline and _is_alive(record.keeper):
        time.sleep(0.05)
    clean_up(home, record)


def clean_up(home: Path, record: LocalRay) -> None:
    """Remove what is left of a Ray whose keeper is gone: its processes, its files and its record."""
    import shutil

    kill_processes_of(record.folder)
    shutil.rmtree(record.folder, ignore_errors=True)
    if read_record(home) == record:
        record_file(home).unlink(missing_ok=True)


def kill_processes_of(folder: str) -> None:
    """Kill Ray's processes, those that `processes_of` finds. Its workers die with them."""
    for process in processes_of(folder):
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)


def processes_of(folder: str) -> list[int]:
    """Ray's processes, told by their command lines, which name its folder.

    Its agents take other names for themselves, and outlive a Ray that was killed for a minute: they and its
    workers are told by their logs.
    """
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes()
            is_named = folder.encode() in words and int(entry.name) != os.getpid()
            if is_named or (words.startswith(b"ray::") and _has_open(entry, folder)):
                found.append(int(entry.name))
    return found


def _has_open(process: Path, folder: str) -> bool:
    for descriptor in (process / "fd").iterdir():
        with suppress(OSError):
            if str(descriptor.readlink()).startswith(f"{folder}/"):
                return True
    return False


def read_record(home: Path) -> LocalRay | None:
    try:
        return LocalRay(**json.loads(record_file(home).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def write_record(home: Path, record: LocalRay) -> None:
    """Atomically, and for the owner's eyes only: it holds the token."""
    beside = record_file(home).with_suffix(f".{os.getpid()}")
    beside.touch(mode=0o600)
    beside.write_text(json.dumps(asdict(record)), encoding="utf-8")
    beside.replace(record_file(home))


def _is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
