"""`headcount table` and `headcount token` as a user runs them."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import forked
import pytest
from builders import build_sweep
from sqlalchemy import text

from headcount.orchestrator.store import open_store
from headcount.orchestrator.store.tokens import is_well_formed

BLOCKED = """
import sys
for name in ("fastapi", "starlette", "pydantic", "uvicorn", "torch", "ray", "plotly", "jinja2"):
    sys.modules[name] = None  # importing it raises ImportError
from headcount.__main__ import main
main()
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    store = open_store(f"sqlite:///{home / 'headcount.db'}")
    with store.write() as session:
        build_sweep(session, kv_heads=(1, 2), states={(8, 2, 1e-3, 1): "diverged"}, curves=False)
    store.close()
    return home


def headcount(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command with every library of the service and of training out of reach."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("HEADCOUNT_")}
    return subprocess.run(
        [sys.executable, "-c", BLOCKED, *arguments],
        env=clean | {"HEADCOUNT_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def typed(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command with everything within reach, and sooner begun."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("HEADCOUNT_")}
    return forked.typed(arguments, clean | {"HEADCOUNT_HOME": str(home)}, home)


def test_the_printed_numbers_are_the_stores(home: Path) -> None:
    printed = headcount(home, "table", "head-count", "--digits", "6")
    assert (printed.returncode, printed.stderr) == (0, "")
    store = open_store(f"sqlite:///{home / 'headcount.db'}")
    query = (
        "SELECT c.settings, AVG(j.tail_mean), AVG(j.tail_mean - k.tail_mean), COUNT(*)"
        " FROM cell c JOIN sweep_job w ON w.cell_id = c.id JOIN job j ON j.id = w.job_id"
        " JOIN job k ON k.id = w.control_job_id"
        " WHERE NOT EXISTS (SELECT 1 FROM sweep_job v JOIN job d ON d.id = v.job_id"
        "   WHERE v.cell_id = c.id AND d.state = 'diverged')"
        " GROUP BY c.id, c.settings"
    )
    with store.read() as session:
        rows = session.execute(text(query)).all()
    store.close()
    assert len(rows) == 9
    lines = [line.split() for line in printed.stdout.splitlines()]
    for settings, mean, delta, n in rows:
        axes = [f"{value:g}" for value in json.loads(settings).values()]
        (line,) = [words for words in lines if words[:3] == axes]
        assert (line[3], line[5], line[6]) == (f"{mean:.6f}", str(n), f"{delta:+.6f}")
    (diverged,) = [words for words in lines if words[:3] == ["8", "2", "0.001"]]
    assert diverged[3:6] == ["—", "—", "0"]
    assert "routing heads 8, kv heads 2, peak lr 0.001: 1 of 3 diverged" in printed.stdout


def test_files_are_written_exactly(home: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(headcount(home, "table", "head-count", "--format", "csv").stdout)))
    table = json.loads(headcount(home, "table", "head-count", "--format", "json").stdout)
    assert [row["mean"] for row in rows] == [
        "" if r["mean"] is None else repr(r["mean"]) for r in table["rows"]
    ]


def test_a_sweep_that_is_not_there_is_the_users_mistake(home: Path) -> None:
    answer = typed(home, "table", "headcount")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == "Error: no sweep is called 'headcount'; did you mean 'head-count'?\n"


def test_a_token_is_shown_once_listed_and_revoked(tmp_path: Path) -> None:
    assert "No token was made yet" in headcount(tmp_path, "token", "list").stdout
    made = headcount(tmp_path, "token", "create", "ada", "--scope", "submit", "--expires", "12h")
    assert made.returncode == 0, made.stderr
    text = made.stdout.strip()
    assert is_well_formed(text)
    assert "shown only now" in made.stderr
    listed = typed(tmp_path, "token", "list").stdout.splitlines()[1]
    assert listed.split()[:4] == ["ada", f"{text[:7]}…", "submit", "usable"]
    assert text not in (tmp_path / "headcount.db").read_bytes().decode("latin-1")
    again = typed(tmp_path, "token", "create", "ada")
    assert (again.returncode, again.stdout) == (2, "")
    assert again.stderr.startswith("Error: there is a token called 'ada'; revoke it first")
    assert typed(tmp_path, "token", "revoke", "ada").stdout == "ada: revoked\n"
    assert "revoked" in typed(tmp_path, "token", "list").stdout
    wrong = typed(tmp_path, "token", "revoke", "ada")
    assert (wrong.returncode, wrong.stderr.startswith("Error: no token is called 'ada'")) == (2, True)


@pytest.mark.parametrize("expires", ["soon", "0d", "90", "-1d", "999999d"])
def test_a_time_that_is_none_is_refused(tmp_path: Path, expires: str) -> None:
    answer = typed(tmp_path, "token", "create", "ada", f"--expires={expires}")
    assert answer.returncode == 2
    assert answer.stderr == f"Error: --expires {expires}: write days or hours such as 90d or 12h, or never\n"


def test_other_tables_and_published_figures(home: Path) -> None:
    seeds = headcount(home, "table", "head-count", "--as", "seeds", "--format", "csv")
    assert (seeds.returncode, seeds.stderr) == (0, "")
    assert seeds.stdout.splitlines()[0].startswith("model.routing_heads,model.kv_heads,train.peak_lr,loss_0")
    printed = typed(home, "table", "head-count", "--as", "throughput")
    assert "What does it cost?" in printed.stdout
    beside = typed(home, "table", "head-count", "--reference", "paper")
    assert "Published figures: other text and recipe, so only sign and order compare" in beside.stdout
    told = " ".join(beside.stdout.split())
    assert "By default a job has float32 master weights, where the published runs keep bfloat16" in told
    unknown = typed(home, "table", "head-count", "--as", "head")
    assert (unknown.returncode, unknown.stderr) == (
        2,
        "Error: no table is called 'head'; did you mean 'heads'?\n",
    )
