"""How far the instruments of a sweep are. Its jobs are counted without them."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from headcount.orchestrator.store.instrument_models import SweepInstrument
from headcount.orchestrator.store.models import JOB_STATES, SETTLED_STATES, Attempt, Job, SweepJob

NOUNS = {"probe": "probes", "evaluate": "downstream evaluations"}
"""What instruments of a kind are called."""


@dataclass(frozen=True)
class Instruments:
    """Of one sweep, counted."""

    states: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Kind, such as `probe`, to state to number; what there is none of is left out."""
    waiting: int = 0
    """Unsettled ones that the sweep wants, or that are being cancelled."""
    paused: bool = False
    """Whether any of those waits for the sweep to be resumed."""

    @property
    def words(self) -> str:
        """Such as `probes: 3 finished, 1 queued`; empty where there is none."""
        return "; ".join(
            f"{NOUNS.get(kind, kind)}: " + ", ".join(f"{number} {state}" for state, number in states.items())
            for kind, states in self.states.items()
        )


@dataclass(frozen=True)
class FailedInstrument:
    id: str
    kind: str
    parent_id: str
    message: str


def instruments_of(session: Session, sweep_id: int) -> Instruments:
    counted = (
        select(Job.kind, Job.state, SweepInstrument.wanted, SweepJob.paused, func.count())
        .join(SweepInstrument, SweepInstrument.job_id == Job.id)
        .join(
            SweepJob,
            (SweepJob.sweep_id == SweepInstrument.sweep_id) & (SweepJob.job_id == Job.parent_id),
        )
        .where(SweepInstrument.sweep_id == sweep_id)
        .group_by(Job.kind, Job.state, SweepInstrument.wanted, SweepJob.paused)
    )
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    waiting, held = 0, False
    for kind, state, wanted, paused, number in session.execute(counted):
        found[kind][state] += number
        if state not in SETTLED_STATES and (wanted or state == "cancelling"):
            waiting += number
            held |= paused and state == "queued"
    states = {
        kind: {state: found[kind][state] for state in JOB_STATES if state in found[kind]}
        for kind in sorted(found, reverse=True)
    }
    return Instruments(states, waiting, held)


def failed_instruments(session: Session, sweep_id: int) -> list[FailedInstrument]:
    """With why their last attempt failed, the last line of it."""
    query = (
        select(Job, Attempt.message)
        .join(SweepInstrument, SweepInstrument.job_id == Job.id)
        .outerjoin(Attempt, Attempt.job_id == Job.id)
        .where(SweepInstrument.sweep_id == sweep_id, SweepInstrument.wanted, Job.state == "failed")
        .order_by(Job.id, Attempt.number)
    )
    last = {job.id: (job, message or "") for job, message in session.execute(query)}
    return [
        FailedInstrument(job.id, job.kind, job.parent_id or "", (message.strip().splitlines() or [""])[-1])
        for job, message in last.values()
    ]
