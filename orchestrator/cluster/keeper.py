"""The process that keeps a home's local Ray: starts it, and ends it when it is unused or a part has died."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType

from headcount.orchestrator.cluster.local_ray import (
    STOP_SECONDS,
    LocalRay,
    clean_up,
    ray_environment,
    read_record,
    unused,
    write_record,
)

IDLE_SECONDS = 60
"""How long Ray stays when neither a scheduler nor a slot is there."""

START_SECONDS = 90
OBJECT_STORE_BYTES = 100 * 2**20
"""Ray's least is 75 MiB; slots keep nothing there."""


def keep(home: Path, idle_seconds: float = IDLE_SECONDS) -> None:
    """Run Ray until it is idle, told to end, or broken; then leave nothing of it behind."""
    folder = tempfile.mkdtemp(prefix="headcount-ray-")
    token = secrets.token_hex(16)
    ray = subprocess.Popen(
        _command(folder), env={**os.environ, **ray_environment(token)}, stdin=subprocess.DEVNULL
    )
    try:
        address = _wait_for_address(ray, Path(folder))
        record = LocalRay(address, token, folder, os.getpid())
        write_record(home, record)
        _watch(ray, home, record, idle_seconds)
    finally:
        ray.terminate()
        try:
            ray.wait(STOP_SECONDS - 5)
        except subprocess.TimeoutExpired:
            ray.kill()
        clean_up(home, LocalRay("", token, folder, os.getpid()))
        record_now = read_record(home)
        if record_now is not None and record_now.folder == folder:
            clean_up(home, record_now)


def _command(folder: str) -> list[str]:
    ray = shutil.which("ray", path=str(Path(sys.executable).parent)) or "ray"
    options = {
        "--port": "0",
        "--num-cpus": str(len(os.sched_getaffinity(0))),
        "--temp-dir": folder,
        "--object-store-memory": str(OBJECT_STORE_BYTES),
        "--include-dashboard": "false",
        "--include-log-monitor": "false",
        "--log-style": "record",
        "--log-color": "false",
    }
    flags = ["--head", "--block", "--disable-usage-stats"]
    return [ray, "start", *flags, *(word for option in options.items() for word in option)]


def _wait_for_address(ray: "subprocess.Popen[bytes]", folder: Path) -> str:
    file = folder / "ray_current_cluster"
    while not file.exists() or not file.read_text():
        if ray.poll() is not None:
            raise SystemExit(1)
        time.sleep(0.05)
    return file.read_text().strip()


def _watch(ray: "subprocess.Popen[bytes]", home: Path, record: LocalRay, idle_seconds: float) -> None:
    """Return when Ray should end. With `--block`, Ray's own command ends when a part of it has died."""
    used = time.monotonic()
    while ray.poll() is None and time.monotonic() - used < idle_seconds and read_record(home) == record:
        if not unused(home):
            used = time.monotonic()
        time.sleep(1)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


def _in_background(home: Path) -> int:
    """Keep Ray in a process that belongs to nobody; returns once it answers or has failed."""
    keeper = os.fork()
    if keeper == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, _end)
        keep(home)
        return 0
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and os.waitpid(keeper, os.WNOHANG) == (0, 0):
        record = read_record(home)
        if record is not None and record.keeper == keeper:
            return 0
        time.sleep(0.05)
    return 1


if __name__ == "__main__":
    sys.exit(_in_background(Path(sys.argv[1])))
