"""What the doctor says of a machine, each wrong thing with its mending; and of a whole home, as typed."""

from dataclasses import replace
from pathlib import Path

import pytest
from homes import Home
from plans import submit_text

from headcount.orchestrator.scheduling.lease import Lease
from headcount.orchestrator.store import Store, open_store
from headcount.orchestrator.store.journal import now
from headcount.orchestrator.store.models import Notice
from headcount.orchestrator.upkeep.diagnosis import store_findings
from headcount.orchestrator.upkeep.findings import GIB, machine_findings
from headcount.orchestrator.upkeep.nodes import NodeReport, report
from headcount.trainer.config import NUMERICS

CARD = {"name": "NVIDIA H200", "free": 139 * GIB, "total": 140 * GIB}
HERE = NodeReport(
    host="a",
    python="3.11.7",
    versions={"headcount": "0.1.0", "torch": "2.11.0", "triton": "3.6.0", "ray": "2.60.0", "numpy": "2.4.0"},
    numerics=1,
    cards=(CARD,),
    torch_problem=None,
    free={"home": 100 * GIB, "artifacts": 50 * GIB},
    sees_probe=True,
    datasets=(),
)


def test_a_machine_without_fault() -> None:
    found = list(machine_findings("node 1", HERE, HERE))
    assert [(f.level, f.subject, f.words) for f in found] == [
        (
            "ok",
            "node 1",
            "a, Python 3.11.7, headcount 0.1.0, torch 2.11.0, triton 3.6.0, ray 2.60.0, numpy 2.4.0",
        ),
        ("ok", "node 1, GPU 0", "NVIDIA H200, 139 of 140 GiB free"),
        ("ok", "node 1, disk of home", "100.0 GiB free"),
        ("ok", "node 1, disk of artifacts", "50.0 GiB free"),
    ]


@pytest.mark.parametrize(
    ("change", "level", "subject", "words"),
    [
        ({"versions": {**HERE.versions, "torch": None}}, "wrong", "torch", "not installed"),
        ({"torch_problem": "RuntimeError: driver"}, "wrong", "torch", "RuntimeError: driver"),
        (
            {"versions": {**HERE.versions, "triton": None}},
            "warning",
            "triton",
            "not installed: depth routing",
        ),
        (
            {"versions": {**HERE.versions, "headcount": "0.2.0"}},
            "wrong",
            "headcount",
            "0.2.0 there, 0.1.0 here",
        ),
        ({"versions": {**HERE.versions, "torch": "2.12.0"}}, "warning", "torch", "2.12.0 there, 2.11.0 here"),
        ({"numerics": 2}, "wrong", "numerics", "2 there, 1 here: it would train to other numbers"),
        ({"cards": ({**CARD, "free": 20 * GIB},)}, "warning", "GPU 0", "NVIDIA H200, 20 of 140 GiB free"),
        ({"free": {"home": None}}, "wrong", "disk of home", "cannot be written"),
        ({"free": {"home": 2 * GIB}}, "warning", "disk of home", "2.0 GiB free"),
        ({"free": {"home": 0}}, "wrong", "disk of home", "0.0 GiB free"),
    ],
)
def test_what_is_wrong_comes_with_its_mending(
    change: dict[str, object], level: str, subject: str, words: str
) -> None:
    told = [f for f in machine_findings("n", replace(HERE, **change), HERE) if f.level != "ok"]  # type: ignore[arg-type]
    found = next(f for f in told if f.subject == f"n, {subject}")
    assert found.level == level
    assert found.words.startswith(words)
    assert found.mend


def test_this_machine_tells_what_it_has(tmp_path: Path) -> None:
    (tmp_path / "probe").write_text("x")
    found = report(str(tmp_path / "not" / "there"), str(tmp_path), None, "probe", ("ab" * 32,))
    assert found.numerics == NUMERICS
    assert found.versions["headcount"]
    assert found.sees_probe
    assert found.datasets == ()
    assert (found.free["home"] or 0) > 0
    assert not report(str(tmp_path), str(tmp_path), None, "other").sees_probe


def test_a_store_tells_who_schedules_and_what_keeps_jobs_from_starting(store: Store) -> None:
    submit_text(store)
    with store.write() as session:
        session.add(Notice(subject="node b", words="another package version", since=now()))
    lease = Lease.acquire(store)
    first, notice, holder = store_findings(store)
    assert (first.level, first.words.partition(": ")[2]) == ("ok", "6 jobs, 6 without an outcome")
    assert (notice.level, notice.subject, notice.words) == ("warning", "node b", "another package version")
    assert (holder.level, holder.subject) == ("ok", "scheduler")
    assert holder.words.startswith("process ")
    lease.release()
    assert list(store_findings(store))[-1].words == "none at work, and jobs wait"


def test_the_doctor_as_typed(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", {})
    home.folder.mkdir()
    store = open_store(f"sqlite:///{home.folder / 'headcount.db'}")
    submit_text(store)
    store.close()
    done = home.typed("doctor")
    levels = [line.split()[0] for line in done.stdout.splitlines()]
    wrong, warnings = levels.count("WRONG"), levels.count("!")  # a small disk or a used card are told too
    assert done.returncode == (3 if wrong else 0), done.stdout + done.stderr
    assert "headcount.db: 6 jobs, 6 without an outcome\n" in done.stdout
    assert "!     scheduler: none at work, and jobs wait\n      → headcount run SWEEP" in done.stdout
    assert done.stdout.endswith(f"\n{wrong} wrong, {warnings} to look at\n")
    home.environment["RAY_ADDRESS"] = "127.0.0.1:9"
    lost = home.typed("doctor")
    assert lost.returncode == 3
    assert (
        "WRONG Ray: cannot reach Ray at 127.0.0.1:9: nothing answers there\n      → start Ray" in lost.stdout
    )
