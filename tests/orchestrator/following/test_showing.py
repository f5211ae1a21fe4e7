"""What the commands say of what keeps jobs from starting, and of when the last ends."""

from contextlib import closing
from pathlib import Path

import pytest
from plans import submit_text

from headcount.orchestrator.following.live import to_go_words
from headcount.orchestrator.following.overview import RunningJob, SweepState
from headcount.orchestrator.following.showing import show_status
from headcount.orchestrator.following.time_to_go import TimeToGo
from headcount.orchestrator.scheduling.lease import Lease
from headcount.orchestrator.store import open_store
from headcount.orchestrator.store.notices import replace_notices

NOTICES = {
    "node gpu-3": "its disk is full",
    "sweep other": "its jobs wait: no node of the cluster now has a card",
    "sweep tiny": "its jobs cannot start: no node may have a card of kind H200",
}


def test_notices_of_the_sweep_and_of_nodes_are_told_while_a_scheduler_is_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADCOUNT_HOME", str(tmp_path))
    monkeypatch.delenv("HEADCOUNT_DATABASE_URL", raising=False)
    with closing(open_store(f"sqlite:///{tmp_path / 'headcount.db'}")) as store:
        submit_text(store)
        with store.write() as session:
            replace_notices(session, NOTICES)
        show_status("tiny")
        assert capsys.readouterr().out == "tiny: 6 queued of 6\nScheduler: none at work\n"
        lease = Lease.acquire(store)
        show_status("tiny")
        assert capsys.readouterr().out.splitlines()[2:] == [
            f"{subject}: {NOTICES[subject]}" for subject in ("node gpu-3", "sweep tiny")
        ]
        show_status(None)
        assert capsys.readouterr().out.splitlines()[-3:] == [f"{s}: {w}" for s, w in NOTICES.items()]
        lease.release()


@pytest.mark.parametrize(
    ("running", "paused", "to_go", "words"),
    [
        (0, True, None, "to go on: headcount resume tiny"),
        (0, False, None, "waiting for a slot"),
        (1, False, None, "time to go not known before the first job has finished"),
        (1, False, TimeToGo(40, 95), "40 s to 1:35 to go"),
        (1, True, TimeToGo(40, 40), "40 s to go"),
    ],
)
def test_when_the_last_job_ends(running: int, paused: bool, to_go: TimeToGo | None, words: str) -> None:
    job = RunningJob("ab", {}, 0, 1, 10, None, None)
    state = SweepState("tiny", {"queued": 6}, 6, (job,) * running, paused)
    assert to_go_words(to_go, state) == words
