"""The user's mistakes, through the command line: one clear error, exit code 2, nothing half-written."""

from collections.abc import Iterator
from pathlib import Path

import forked
import pytest
from disks import small_disk
from homes import Home

from headcount.orchestrator.cluster import local_ray


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path / "home", {})
    yield made
    made.stop_all()


def test_a_missing_file_names_the_nearest(home: Home) -> None:
    home.sweep(60)
    _refused(home, ["run", "smal.yaml"], "smal.yaml: no such file; did you mean 'small.yaml'?")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("axes:", "axes: ["), "malformed YAML: expected ',' or ']'"),
        (
            ("steps: 60", "stepz: 60"),
            "small.yaml:6: job.train.stepz: unknown field; did you mean 'train.steps'?",
        ),
        (("[1, 2]", "[1, 3]"), "3 does not divide model.d_model (64)"),
        (("[1, 2]", "[]"), "axes.model.routing_heads"),
        (("text: ", "text: /nowhere"), "/nowhere"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_place(
    home: Home, change: tuple[str, str], message: str
) -> None:
    file = Path(home.sweep(60))
    file.write_text(file.read_text().replace(*change))
    _refused(home, ["run", str(file)], message)
    assert home.rows("SELECT name FROM sweep") == []


def test_unknown_names_are_refused(home: Home) -> None:
    for command in ("run", "status", "jobs", "cancel", "submit", "watch"):
        _refused(home, [command, "nothing"], "no sweep 'nothing'; there is none yet")
    for command in ("run", "submit"):
        _refused(home, [command, "quickstrat"], "no sweep or study 'quickstrat'; did you mean 'quickstart'?")
    for command in ("logs", "why", "replay"):
        _refused(home, [command, "abc"], "no job 'abc'; 'headcount jobs SWEEP' lists their ids")


def test_a_cluster_that_is_reached_otherwise_is_named(home: Home) -> None:
    file = home.sweep(60)
    _refused(home, ["run", file, "--ray-address", "ray://127.0.0.1:9"], "run on one of its nodes")
    assert home.rows("SELECT DISTINCT state FROM job") == [("queued",)]


def test_a_home_under_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    inside = Home(tmp_path / "file" / "home", {})
    for command in (("status",), ("plan", "x.yaml"), ("run", "x.yaml"), ("jobs", "x")):
        done = forked.typed(command, inside.environment, tmp_path)
        assert done.returncode == 2
        assert done.stderr.startswith("Error: cannot use ")
        assert "not a folder; set HEADCOUNT_HOME" in done.stderr


def test_a_read_only_home_is_one_clear_error(home: Home) -> None:
    with small_disk(home.folder, "size=1m,ro"):
        _refused(home, ["run", home.sweep(60)], "home: it is read-only; set HEADCOUNT_HOME")


def test_a_full_disk_is_one_clear_error(home: Home) -> None:
    with small_disk(home.folder, "size=64k"):
        _refused(home, ["run", home.sweep(60)], "space")


def test_a_disk_that_fills_up_while_jobs_run_ends_the_run_and_leaves_nothing_at_work(home: Home) -> None:
    with small_disk(home.folder, "size=600k"):
        _refused(home, ["run", home.sweep(60)], "headcount.db has no space left on its disk")
        assert home.slot_processes() == []
        assert local_ray.read_record(home.folder) is None


def _refused(home: Home, command: list[str], message: str) -> None:
    done = home.typed(*command)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith("Error: ")
    assert len(done.stderr.strip().splitlines()) == 1
    assert message in done.stderr
