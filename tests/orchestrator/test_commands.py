"""Every command as typed, right and wrong, on both engines: exit code, one clear error, nothing half done."""

import os
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import forked
import pytest
from homes import SWEEP
from sqlalchemy import select

from headcount.orchestrator.store import open_store
from headcount.orchestrator.store.models import Base

Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def typed(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Types a command over an empty store, beside a sweep's file; its exit code and what it prints."""
    for name in ("RAY_ADDRESS", "HEADCOUNT_ARTIFACTS", "HEADCOUNT_URL", "HEADCOUNT_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HEADCOUNT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HEADCOUNT_DATABASE_URL", store_url)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("every command is typed right and wrong " * 500)
    (tmp_path / "small.yaml").write_text(SWEEP.format(text="text.txt", steps=40))
    open_store(store_url).close()

    def type_it(*arguments: str) -> tuple[int, str, str]:
        done = forked.typed(arguments, os.environ, tmp_path)
        return done.returncode, done.stdout, done.stderr

    return type_it


def content(store_url: str, folder: Path) -> tuple[dict[str, list[Any]], set[str]]:
    """Every row of the store, and every file beside it."""
    with closing(open_store(store_url)) as store, store.read() as session:
        tables = Base.metadata.sorted_tables
        rows = {table.name: session.execute(select(table)).all() for table in tables}
    return rows, {str(file) for file in folder.rglob("*") if not file.name.startswith("headcount.db")}


def test_a_sweep_on_its_way(typed: Typed, tmp_path: Path) -> None:
    """What each command says, in the order in which a user may type them."""
    assert typed("status") == (0, "No sweep yet; 'headcount run FILE' makes one.\n", "")
    code, printed, _ = typed("plan", "small.yaml")
    assert (code, printed.splitlines()[-1]) == (0, "In the store: 3 new, 0 known, 0 shared")
    idle = "No scheduler is at work; to train them: headcount run small"
    for found in ("3 new, 0 known", "0 new, 3 known"):
        code, printed, _ = typed("submit", "small.yaml")
        assert (code, printed) == (
            0,
            f"small: 3 jobs, {found}, 0 shared with other sweeps\n{idle}, or headcount scheduler\n",
        )
    assert typed("status", "small") == (0, "small: 3 queued of 3\nScheduler: none at work\n", "")
    code, printed, _ = typed("jobs", "small")
    jobs = re.findall("^([0-9a-f]{12}) .* queued", printed, re.MULTILINE)
    assert (code, len(jobs)) == (0, 3)
    assert typed("why", jobs[0])[1].endswith(
        "It waits for a free slot: it is the next, 0 jobs at work\n"
        "No scheduler is at work: headcount run small, or headcount scheduler\n"
    )
    code, printed, _ = typed("logs", jobs[0])
    assert code == 0
    assert re.fullmatch(rf"job {jobs[0]}\w{{52}}: queued, step 0 of 40\n", printed)
    for arguments, said in (
        (("pause", "small"), "small: 3 jobs paused; now 3 queued (paused)\n"),
        (("resume", "small"), f"small: 3 jobs resumed; now 3 queued\n{idle}\n"),
        (("priority", "small", "-7"), "small: 3 jobs at priority -7; now 3 queued\n"),
        (("cancel", "small"), "small: 3 jobs withdrawn; now 3 cancelled\n"),
        (
            ("retry", "small", "--failed"),
            "small: 0 jobs queued again; now 3 cancelled\nTo queue the cancelled ones: headcount run small\n",
        ),
    ):
        assert typed(*arguments) == (0, said, "")
    code, printed, _ = typed("watch", "small")
    assert (code, printed.count("cancelled ")) == (3, 3)
    assert typed("export", "small")[1].startswith("small.tar.gz: 3 jobs, 0 attempts, 0 evaluations; SHA-256 ")
    code, printed, _ = typed("import", "small.tar.gz", "--name", "again")
    assert (code, printed.splitlines()[0]) == (0, "again: 0 jobs new, 0 completed, 3 kept as they were")
    assert typed("delete", "again", "--yes")[:2] == (0, "again: removed; 3 jobs stay in the store\n")
    assert typed("gc", "--older-than", "0d")[1].endswith(
        "Nothing was deleted; --delete does it, but for models\n"
    )
    assert typed("db", "check")[0] == 0


WRONG = {
    "Missing argument": "run; priority small; export; replay",
    "No command 'stauts'; did you mean 'status'?": "stauts",
    "no sweep or study 'smal'; did you mean 'small'?": "plan smal; run smal; submit smal",
    "no sweep 'smal'; did you mean 'small'?": "watch smal; status smal; jobs smal; "
    "cancel smal; pause smal; resume smal; retry smal; export smal; priority smal 3; "
    "delete smal --yes",
    "no job 'xyz'; 'headcount jobs SWEEP' lists their ids": "logs xyz; why xyz; replay xyz",
    "smal.yaml: no such file; did you mean 'small.yaml'?": "plan smal.yaml; run smal.yaml; submit smal.yaml",
    "wrong.yaml:6: job.train.stepz: unknown field": "plan wrong.yaml; run wrong.yaml; submit wrong.yaml",
    "is not a valid integer range": "priority small high",
    "1001 is not in the range -1000<=x<=1000": "priority small 1001",
    "--stop-after 8: expected a time such as 90s, 8m, 2h or 30d": "run small.yaml --stop-after 8",
    "'lab' is no service's address; expected one such as": "submit small.yaml --url lab",
    "http://127.0.0.1:9 does not answer": "submit small.yaml --url http://127.0.0.1:9; "
    "watch small --url http://127.0.0.1:9",
    "70000 is not in the range": "scheduler --metrics-port 70000",
    "--older-than soon: expected a time such as": "gc --older-than soon",
    "'modells' is not one of 'checkpoints', 'models', 'logs', 'jobs'": "gc modells",
    "cannot write /nowhere/small.tar.gz": "export small --out /nowhere/small.tar.gz",
    "cannot read none.tar.gz: No such file or directory": "import none.tar.gz",
    "small.yaml is torn, or not a sweep's bundle": "import small.yaml",
}
"""What is said of which commands, in a folder with `small.yaml` and `wrong.yaml` and a sweep `small`."""


def test_a_mistake_is_one_error_and_changes_nothing(typed: Typed, store_url: str, tmp_path: Path) -> None:
    assert typed("submit", "small.yaml")[0] == 0
    (tmp_path / "wrong.yaml").write_text((tmp_path / "small.yaml").read_text().replace("steps", "stepz"))
    before = content(store_url, tmp_path)
    for message, commands in WRONG.items():
        for command in commands.split("; "):
            code, printed, said = typed(*command.split())
            assert (code, printed, said.count("Error: ")) == (2, "", 1), (command, code, printed, said)
            assert message in said.splitlines()[-1], (command, said)
    assert content(store_url, tmp_path) == before


def test_a_run_whose_ray_does_not_answer_ends_with_it_and_schedules_no_more(
    typed: Typed, tmp_path: Path
) -> None:
    code, _, said = typed("run", "small.yaml", "--ray-address", "127.0.0.1:9")
    assert (code, said) == (2, "Error: cannot reach Ray at 127.0.0.1:9: nothing answers there\n")
    assert (tmp_path / "home" / "scheduler.log").read_text() == said
    assert typed("status", "small") == (0, "small: 3 queued of 3\nScheduler: none at work\n", "")


ASKING = (
    "status; jobs x; logs x; why x; cancel x; pause x; resume x; retry x; priority x 1; delete x --yes; "
    "plan small.yaml; run small.yaml; submit small.yaml; watch x; scheduler; replay x; gc; export x; "
    "import x.tar.gz; db check; db upgrade"
)
"""Every command that asks the store."""


def test_a_store_that_does_not_answer_is_one_error_without_its_password(
    typed: Typed, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if store_url.startswith("sqlite"):
        pytest.skip("a file answers, or is none of ours: store/test_engine.py")
    monkeypatch.setenv("HEADCOUNT_DATABASE_URL", "postgresql://ada:geheim@127.0.0.1:9/lab")
    for command in ASKING.split("; "):
        code, printed, said = typed(*command.split())
        assert (code, printed, said.count("Error: ")) == (2, "", 1), (command, code, printed, said)
        assert "127.0.0.1" in said
        assert "geheim" not in said
