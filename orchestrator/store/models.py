"""The tables of what is known: jobs, attempts and what they told; what happened, and who schedules.

Wishes are in `wish_models`, the service's own tables in `service_models`; all are handed on from here.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, Integer, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from headcount.orchestrator.store.columns import Base as Base
from headcount.orchestrator.store.columns import one_of
from headcount.orchestrator.store.instrument_models import SweepInstrument as SweepInstrument
from headcount.orchestrator.store.service_models import Answer as Answer
from headcount.orchestrator.store.service_models import Login as Login
from headcount.orchestrator.store.service_models import Token as Token
from headcount.orchestrator.store.wish_models import TRIAL_STATES as TRIAL_STATES
from headcount.orchestrator.store.wish_models import Cell as Cell
from headcount.orchestrator.store.wish_models import Sweep as Sweep
from headcount.orchestrator.store.wish_models import SweepJob as SweepJob
from headcount.orchestrator.store.wish_models import Trial as Trial

JOB_STATES = ("queued", "running", "cancelling", "finished", "diverged", "failed", "cancelled")
SETTLED_STATES = ("finished", "diverged", "failed", "cancelled")
RESULT_STATES = ("finished", "diverged")
CAUSES = (
    "finished",
    "diverged",
    "user_error",
    "gpu_memory",
    "host_memory",
    "slot_lost",
    "node_lost",
    "preempted",
    "cancelled",
    "timed_out",
    "data_differs",
)
JOB_KINDS = ("train", "probe", "evaluate", "convert", "external")
"""`external` was trained elsewhere: its result was imported, and it cannot be trained again."""


class Job(Base):
    """One unit of work with one result, whoever wished for it."""

    __tablename__ = "job"
    __table_args__ = (
        one_of("state", JOB_STATES),
        one_of("kind", JOB_KINDS),
        # all that says which instruments count
        Index(
            "job_parent",
            *("parent_id", "ended", "id", "seed", "state"),
            sqlite_where=text("parent_id IS NOT NULL"),
            postgresql_where=text("parent_id IS NOT NULL"),
        ),
        # all that tables show of a job: its row, with the whole configuration, takes twice as long to read
        Index(
            "job_result",
            *("id", "kind", "state", "seed", "tail_mean", "diverged_step", "parameters", "flops"),
        ),
    )

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    """SHA-256 of the canonical configuration, the data's fingerprint and `NUMERICS`, in hexadecimal."""
    kind: Mapped[str] = mapped_column(String(16), default="train")
    parent_id: Mapped[str | None] = mapped_column(ForeignKey("job.id"))
    config: Mapped[dict[str, Any]]
    """Every field by its dotted name, with the seed."""
    seed: Mapped[int]
    fingerprint: Mapped[str] = mapped_column(String(64))
    numerics: Mapped[int]
    parameters: Mapped[int] = mapped_column(BigInteger)
    flops: Mapped[float]
    """Of the whole job, forward and backward, by the formula of `trainer.flops`."""
    state: Mapped[str] = mapped_column(String(16), default="queued", index=True)
    step: Mapped[int] = mapped_column(default=0)
    """Updates done, as last heard."""
    tail_mean: Mapped[float | None]
    """Written once, when the job finishes."""
    tail: Mapped[int | None]
    """Evaluations that the tail mean is over, the last ones; none for those of the last quarter."""
    diverged_step: Mapped[int | None]
    micro_batch: Mapped[int | None]
    """Windows of one pass after the job ran out of a card's memory; none for the trainer's rule."""
    forgiven_attempts: Mapped[int] = mapped_column(default=0)
    """Attempts up to this number do not count towards giving up: the job was wished for again since."""
    created: Mapped[datetime]
    ended: Mapped[datetime | None]


class Attempt(Base):
    """One try at a job on one slot. It ends with a cause."""

    __tablename__ = "attempt"
    __table_args__ = (one_of("cause", CAUSES), Index("attempt_job", "job_id", "number", unique=True))

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("job.id"))
    number: Mapped[int]
    """From 1 within the job."""
    epoch: Mapped[int]
    """The lease's epoch at dispatch."""
    slot: Mapped[str] = mapped_column(String(100))
    node: Mapped[str] = mapped_column(String(200), default="")
    share: Mapped[float | None]
    """Cards that the slot holds, or the part of one; none on a CPU."""
    last_event: Mapped[int] = mapped_column(default=-1)
    """Sequence number of the last event stored; a restarted scheduler asks from here."""
    start_step: Mapped[int | None]
    environment: Mapped[dict[str, Any] | None]
    started: Mapped[datetime]
    ended: Mapped[datetime | None]
    cause: Mapped[str | None] = mapped_column(String(16))
    message: Mapped[str | None] = mapped_column(Text)
    """For an error: what happened, with the traceback's end."""
    log: Mapped[str | None] = mapped_column(String(500))
    """The artifact key of the attempt's output."""


class Evaluation(Base):
    """Validation loss of a job at one step; NULL where it was not finite."""

    __tablename__ = "evaluation"

    job_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    """Of the attempt, whose reference is enough: PostgreSQL looks every one of every row up."""
    step: Mapped[int] = mapped_column(primary_key=True)
    attempt_id: Mapped[int] = mapped_column(ForeignKey("attempt.id"))
    loss: Mapped[float | None]
    window_losses: Mapped[list[Any] | None]


class Progress(Base):
    """Training loss of a job at one step, thinned; NULL where it was not finite."""

    __tablename__ = "progress"

    job_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    """Of the attempt, whose reference is enough: PostgreSQL looks every one of every row up."""
    step: Mapped[int] = mapped_column(primary_key=True)
    attempt_id: Mapped[int] = mapped_column(ForeignKey("attempt.id"))
    loss: Mapped[float | None]
    learning_rate: Mapped[float]
    gradient_norm: Mapped[float | None]
    tokens_per_second: Mapped[float]


_NAME = String(100).with_variant(String(100, collation="C"), "postgresql")
"""Compared byte by byte on both engines, so that what begins alike is a range of an index."""


class Measurement(Base):
    """A named number about a job: speed, memory, downstream scores."""

    __tablename__ = "measurement"
    __table_args__ = (Index("measurement_value", "job_id", "name", "value"),)

    job_id: Mapped[str] = mapped_column(ForeignKey("job.id"), primary_key=True)
    name: Mapped[str] = mapped_column(_NAME, primary_key=True)
    value: Mapped[float | None]


class Dataset(Base):
    """Text that jobs train on, by its content."""

    __tablename__ = "dataset"

    fingerprint: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    manifest: Mapped[dict[str, Any]]
    created: Mapped[datetime]


class Artifact(Base):
    """A file under the artifacts' address: its key, and the hash of its content."""

    __tablename__ = "artifact"

    key: Mapped[str] = mapped_column(String(500), primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("job.id"), index=True)
    attempt_id: Mapped[int | None] = mapped_column(ForeignKey("attempt.id"))
    kind: Mapped[str] = mapped_column(String(32))
    """`checkpoint`, `model`, `curve` (the training loss of every update), `routing` or `log`."""
    step: Mapped[int | None]
    sha256: Mapped[str] = mapped_column(String(64))
    created: Mapped[datetime]


class Event(Base):
    """What happened, in the order of commits: the source of live updates and of the audit."""

    __tablename__ = "event"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    sweep_id: Mapped[int | None] = mapped_column(ForeignKey("sweep.id", ondelete="CASCADE"), index=True)
    job_id: Mapped[str | None] = mapped_column(String(64))
    """A name, and no reference."""
    kind: Mapped[str] = mapped_column(String(32))
    """`submitted`, `dispatched`, `evaluated`, `settled`, `cancelled`, …"""
    detail: Mapped[dict[str, Any]]
    created: Mapped[datetime]


class Lease(Base):
    """Who schedules: at most one row. Every write of the scheduler carries its epoch."""

    __tablename__ = "lease"

    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    holder: Mapped[str] = mapped_column(String(200))
    epoch: Mapped[int]
    expires: Mapped[datetime]


class Notice(Base):
    """What keeps jobs from starting now, in words for people; gone when it does not any more."""

    __tablename__ = "notice"

    subject: Mapped[str] = mapped_column(String(200), primary_key=True)
    """Such as `node HOST`, `sweep NAME`."""
    words: Mapped[str] = mapped_column(Text)
    since: Mapped[datetime]
