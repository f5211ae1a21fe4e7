"""What is stored of the events that a slot tells."""

from plans import SWEEP, evaluation, records_of_a_job, start_next, submit_text
from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import Measurement
from headcount.orchestrator.store.recording import record_events


def test_how_sites_mix_at_the_last_step_is_kept(store: Store) -> None:
    submit_text(store, SWEEP)
    started, *told, checkpoint, result, _ = records_of_a_job()
    mixes = [
        {"kind": "routing", "step": r["step"], "entropy": [0.0, 0.5 + r["step"]], "top_source": [0, 1]}
        for r in told
    ]
    events = [started, *(event for pair in zip(told, mixes, strict=True) for event in pair)]
    with store.write() as session:
        work = start_next(session)
        record_events(session, work.attempt_id, 0, events[:-2])
        assert _measured(session, work.job_id) == {}
        record_events(session, work.attempt_id, len(events) - 2, events[-2:])
        last = told[-1]["step"]
        sites = {
            "routing_entropy.0": 0.0,
            "routing_entropy.1": 0.5 + last,
            "routing_top_source.0": 0.0,
            "routing_top_source.1": 1.0,
        }
        assert _measured(session, work.job_id) == sites
        # a slot that went back to a checkpoint tells the end again
        again = [evaluation(last, 1.0), {**mixes[-1], "entropy": [0.0, 0.25]}, checkpoint, result]
        record_events(session, work.attempt_id, len(events), again)
        found = _measured(session, work.job_id)
        assert found.items() >= (sites | {"routing_entropy.1": 0.25} | result["measurements"]).items()


def _measured(session: Session, job_id: str) -> dict[str, float | None]:
    return dict(
        session.execute(select(Measurement.name, Measurement.value).where(Measurement.job_id == job_id)).all()
    )
