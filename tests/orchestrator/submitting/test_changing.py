"""The commands that change a sweep on its way, as typed."""

from pathlib import Path

import pytest
from homes import Home
from plans import end, start_next, submit_text

from headcount.orchestrator.store import open_store


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home whose sweep has one failed job and five queued ones, and no scheduler."""
    folder = tmp_path / "home"
    folder.mkdir()
    store = open_store(f"sqlite:///{folder / 'headcount.db'}")
    submit_text(store)
    with store.write() as session:
        end(session, start_next(session), "user_error", "no text")
    store.close()
    return Home(folder, {})


def test_a_sweep_is_changed_and_says_so(home: Home) -> None:
    typed = {
        ("pause", "tiny"): "tiny: 6 jobs paused; now 1 failed, 5 queued (paused)\n",
        ("status", "tiny"): "tiny: 1 failed, 5 queued of 6 (paused)\nScheduler: none at work\n",
        ("resume", "tiny"): "tiny: 6 jobs resumed; now 1 failed, 5 queued\n"
        "No scheduler is at work; to train them: headcount run tiny\n",
        ("priority", "tiny", "-3"): "tiny: 6 jobs at priority -3; now 1 failed, 5 queued\n",
        ("retry", "tiny"): "tiny: 1 job queued again; now 6 queued\n"
        "No scheduler is at work; to train them: headcount run tiny\n",
        ("cancel", "tiny"): "tiny: 6 jobs withdrawn; now 6 cancelled\n",
    }
    for arguments, printed in typed.items():
        done = home.typed(*arguments)
        assert (done.stdout, done.stderr, done.returncode) == (printed, "", 0)
    assert home.rows("SELECT DISTINCT priority, paused, wanted FROM sweep_job") == [(-3, 0, 0)]


@pytest.mark.parametrize("command", [("pause",), ("resume",), ("retry",), ("cancel",), ("priority", "1")])
def test_an_unknown_sweep_is_refused_with_the_nearest(home: Home, command: tuple[str, ...]) -> None:
    done = home.typed(command[0], "tidy", *command[1:])
    assert done.returncode == 2
    assert done.stderr == "Error: no sweep 'tidy'; did you mean 'tiny'?\n"


def test_a_deleted_sweep_is_gone_and_its_jobs_stay(home: Home) -> None:
    done = home.typed("delete", "tiny", "--yes")
    assert (done.stdout, done.returncode) == ("tiny: removed; 6 jobs stay in the store\n", 0)
    assert home.rows("SELECT count(*) FROM sweep") == [(0,)]
    assert home.rows("SELECT state, count(*) FROM job GROUP BY state ORDER BY state") == [
        ("cancelled", 5),
        ("failed", 1),
    ]
