"""`tail: n`: over how many evaluations jobs report, and who may change it."""

import pytest
from plans import EVALUATIONS, SWEEP, finish, make_plan, start_next, submit_text

from headcount.orchestrator.exchange.checking import check_store
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import Job, Sweep
from headcount.sweeps.file.spec import SpecError

LAST = [loss for _, loss in EVALUATIONS]


def test_jobs_report_over_the_sweep_s_tail_and_report_anew_when_it_is_edited(store: Store) -> None:
    ids = [job.id for job in make_plan().jobs]
    assert [job.id for job in make_plan(SWEEP + "tail: 4\n").jobs] == ids
    submit_text(store, SWEEP + "tail: 4\n")
    with store.write() as session:
        work = start_next(session)
        finish(session, work)
    for text, size in ((SWEEP + "tail: 4\n", 4), (SWEEP + "tail: 5\n", 5), (SWEEP, 3), (SWEEP, 3)):
        before = _version(store)
        submit_text(store, text)
        with store.read() as session:
            mean = session.get_one(Job, work.job_id).tail_mean
        assert mean == pytest.approx(sum(LAST[-size:]) / size)
    assert _version(store) == before  # the last one changed nothing


def test_jobs_that_another_sweep_has_report_as_they_did(store: Store) -> None:
    submit_text(store)
    other = SWEEP.replace("tiny", "other")
    with pytest.raises(SpecError) as caught:
        submit_text(store, other + "tail: 4\n")
    assert str(caught.value) == (
        "tiny.yaml:9: tail: the sweep tiny shares jobs with this one, whose tail mean is over the last "
        "quarter of its steps: give the same tail, or another text or length"
    )
    assert submit_text(store, other).shared == 6
    with pytest.raises(SpecError, match="the sweep other shares jobs"):
        submit_text(store, SWEEP + "tail: 4\n")


def test_the_store_s_check_knows_of_tails(store: Store) -> None:
    submit_text(store, SWEEP + "tail: 4\n")
    with store.write() as session:
        finish(session, start_next(session))
    assert check_store(store) == []


def _version(store: Store) -> int:
    with store.read() as session:
        return session.get_one(Sweep, 1).version
