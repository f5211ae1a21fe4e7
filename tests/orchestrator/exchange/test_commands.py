"""`headcount export`, `import` and `db` as a user runs them."""

from pathlib import Path

import pytest
from builders import build_sweep
from homes import Home
from plans import make_plan, submit_text

from headcount.orchestrator.store import open_store


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with one finished sweep."""
    made = Home(tmp_path / "home", {})
    made.folder.mkdir()
    store = open_store(f"sqlite:///{made.folder / 'headcount.db'}")
    with store.write() as session:
        build_sweep(session, kv_heads=(1,), heads=(1, 2, 4))
    store.close()
    return made


def test_a_sweep_moves_to_another_home_and_its_table_with_it(home: Home, tmp_path: Path) -> None:
    done = home.typed("export", "head-count")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("head-count.tar.gz: 12 jobs, 12 attempts, 492 evaluations; SHA-256 ")
    other = Home(tmp_path / "other", {})
    first, second = (other.typed("import", str(tmp_path / "head-count.tar.gz")) for _ in range(2))
    assert first.stdout == "head-count: 12 jobs new, 0 completed, 0 kept as they were\n"
    assert second.stdout == "head-count: 0 jobs new, 0 completed, 12 kept as they were\n"
    table = other.typed("table", "head-count").stdout.splitlines()
    assert table[:-2] == home.typed("table", "head-count").stdout.splitlines()[:-2]


def test_jobs_without_an_outcome_are_cancelled_until_somebody_wants_them(home: Home, tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{home.folder / 'headcount.db'}")
    submit_text(store)
    store.close()
    home.typed("export", "tiny")
    other = Home(tmp_path / "other", {})
    assert other.typed("import", "tiny.tar.gz").stdout == (
        "tiny: 6 jobs new, 0 completed, 0 kept as they were\n"
        "6 have no outcome yet, and are cancelled until somebody here wants them: "
        "'headcount run tiny' trains them\n"
    )
    job = make_plan().jobs[0].id[:12]
    assert other.typed("why", job).stdout == (
        f"job {job}: cancelled\n  sweep tiny does not want it now: - (control) seed=0\n"
        "A sweep that wants it queues it again: headcount run tiny\n"
    )


def test_mistakes_are_one_line(home: Home, tmp_path: Path) -> None:
    (tmp_path / "notes.tar.gz").write_text("milk")
    for command, message in (
        (("export", "head-cuont"), "no sweep 'head-cuont'; did you mean 'head-count'?"),
        (("import", "notes.tar.gz"), "notes.tar.gz is torn, or not a sweep's bundle"),
        (("db", "copy", "mysql://there"), "URL begins with 'mysql'; expected sqlite:///PATH"),
        (("db", "copy", f"sqlite:///{home.folder / 'headcount.db'}"), "is not empty: it has rows of"),
    ):
        done = home.typed(*command)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
        assert message in done.stderr


def test_a_store_is_kept(home: Home, tmp_path: Path) -> None:
    assert "schema" in home.typed("db", "upgrade").stdout
    sound = home.typed("db", "check")
    assert (sound.returncode, sound.stdout.strip().endswith("no problems")) == (0, True)
    copied = home.typed("db", "copy", f"sqlite:///{tmp_path / 'copy.db'}")
    assert (copied.returncode, copied.stderr) == (0, "")
    assert "rows copied and compared" in copied.stdout
    moved = Home(home.folder, {"HEADCOUNT_DATABASE_URL": f"sqlite:///{tmp_path / 'copy.db'}"})
    assert moved.typed("table", "head-count").stdout == home.typed("table", "head-count").stdout


def test_runs_of_another_program_are_a_table(home: Home, tmp_path: Path) -> None:
    rows = [
        "method,H,seed,val",
        *(f"mhar,4,{s},3.{s}" for s in range(3)),
        *(f"additive,,{s},3.5" for s in range(3)),
    ]
    (tmp_path / "their runs.csv").write_text("\n".join(rows))
    command = ["import", "their runs.csv", "--map", "model.routing_heads=H,model.residual=method,loss=val"]
    command += ["--control", "model.residual=additive"]
    first, second = (home.typed(*command) for _ in range(2))
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.startswith("their-runs: 6 runs of 2 cells, 1 of them controls")
    assert second.stdout == "their-runs: these runs are in the store already\n"
    assert "trained elsewhere" in home.typed("table", "their-runs").stdout
    jobs = home.typed("jobs", "their-runs")
    assert (jobs.returncode, jobs.stdout.count("finished")) == (0, 6)
    refused = home.typed("run", "their-runs")
    assert refused.returncode == 2
    assert "imported; they cannot be trained again" in refused.stderr
