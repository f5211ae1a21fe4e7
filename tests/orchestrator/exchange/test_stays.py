"""A sweep in stays: machines that are there for minutes, with nothing but the archive between them."""

from pathlib import Path

from plans import FILES, end, finish, make_plan, start_next, submit_text
from sqlalchemy import func, select

from headcount.orchestrator.exchange.bundle import write_bundle
from headcount.orchestrator.exchange.importing import import_bundle
from headcount.orchestrator.store import open_store
from headcount.orchestrator.store.models import Attempt, Job


def test_no_job_is_trained_twice_and_no_id_changes(tmp_path: Path) -> None:
    """Each stay finishes two jobs of six; the first two leave a third one half-way, which begins anew."""
    ids = [job.id for job in make_plan().jobs]
    archive, trained = tmp_path / "tiny.tar.gz", []
    for stay in range(3):
        store = open_store(f"sqlite:///{tmp_path / f'stay-{stay}.db'}")
        if stay:
            assert import_bundle(store, archive, FILES).new == 6
        submission = submit_text(store)
        assert (submission.new, submission.known) == ((6, 0) if stay == 0 else (0, 6))
        with store.write() as session:
            for _ in range(2):
                work = start_next(session)
                finish(session, work)
                trained.append(work.job_id)
            if stay < 2:
                end(session, start_next(session), "preempted")
        with store.read() as session:
            assert write_bundle(session, "tiny", archive, FILES.read).rows["job"] == 6
            assert session.scalars(select(Job.id).order_by(Job.id)).all() == sorted(ids)
            causes = select(Attempt.cause, func.count()).group_by(Attempt.cause)
            counts = dict(session.execute(causes).all())
        store.close()
        assert counts["finished"] == len(trained) == 2 * (stay + 1)
    assert trained == ids
