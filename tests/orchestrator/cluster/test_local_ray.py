"""A Ray of the home's own: made from nothing, replaced when it dies, and gone when nobody uses it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from homes import Home, ended, trained_alone, wait_for

from headcount.orchestrator.cluster import local_ray

STEPS = 120


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path / "home", {})
    yield made
    made.stop_all()
    if left := local_ray.read_record(made.folder):
        os.kill(left.keeper, signal.SIGKILL)
        local_ray.clean_up(made.folder, left)


@pytest.mark.parametrize("victim", ["all of Ray", pytest.param("the GCS", marks=pytest.mark.drill)])
def test_a_sweep_survives_the_death_of_all_of_ray_and_leaves_nothing_behind(home: Home, victim: str) -> None:
    """The results are those of the trainer alone, called with no cluster and no store."""
    file = home.sweep(STEPS)
    run = home.start("run", file)
    wait_for(lambda: home.running(step=10), 90)
    first = local_ray.read_record(home.folder)
    assert first is not None
    if victim == "the GCS":
        os.kill(_gcs(first.folder), signal.SIGKILL)
    else:
        os.kill(first.keeper, signal.SIGKILL)
        local_ray.kill_processes_of(first.folder)
    output, _ = ended(run, 150)
    assert run.returncode == 0, output
    lost = home.rows("SELECT count(*) FROM attempt WHERE cause = 'node_lost'")
    assert lost != [(0,)]
    assert home.rows("SELECT count(*) FROM attempt WHERE cause = 'finished'") == [(3,)]
    assert home.tail_means() == trained_alone(Path(file), home.folder)
    assert local_ray.read_record(home.folder) is None
    assert not Path(first.folder).exists()
    assert local_ray.processes_of(first.folder) == []
    assert home.slot_processes() == []
    print(f"{victim} killed: {lost[0][0]} attempts lost, 3 jobs finished once each, to the bit")


def _gcs(folder: str) -> int:
    """The process of that Ray that knows of its nodes and actors."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        words = entry.read_bytes()
        if folder.encode() in words and words.split(b"\0")[0].endswith(b"gcs_server"):
            return int(entry.parts[2])
    raise AssertionError("no GCS")


def test_it_listens_on_loopback_only_and_leaves_with_its_last_user(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from headcount.orchestrator.cluster.keeper import keep; "
        "keep(Path({!r}), 1)"
    )
    command = [sys.executable, "-c", code.format(str(tmp_path))]
    held = local_ray.hold(tmp_path)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as keeper:
        ray = wait_for(lambda: local_ray.find(tmp_path), 90)
        assert local_ray.start(tmp_path) == ray
        assert ray.address.startswith("127.0.0.1:")
        assert (tmp_path / "ray.json").stat().st_mode & 0o777 == 0o600
        assert _listening_elsewhere(ray.folder) == []
        assert not local_ray.unused(tmp_path)
        held.close()
        assert keeper.wait(30) == 0
    assert not Path(ray.folder).exists()
    assert local_ray.processes_of(ray.folder) == []
    assert local_ray.find(tmp_path) is None


def _listening_elsewhere(folder: str) -> list[str]:
    """Addresses other than loopback on which processes of that Ray listen."""
    inodes = set()
    for process in local_ray.processes_of(folder):
        for descriptor in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):  # closed meanwhile
                inodes.add(str(descriptor.readlink()).removeprefix("socket:[").removesuffix("]"))
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            address, state, inode = fields[1].partition(":")[0], fields[3], fields[9]
            if state == "0A" and inode in inodes and not address.endswith("0100007F"):
                found.append(fields[1])
    return found
