"""The tables of what is wanted: sweeps and their cells, wishes for jobs, and the trials of searches."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from headcount.orchestrator.store.columns import Base, one_of

TRIAL_STATES = ("open", "complete", "pruned", "skipped", "failed")


class Sweep(Base):
    """One study: its file, as submitted and as parsed."""

    __tablename__ = "sweep"

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    name: Mapped[str] = mapped_column(String(200), unique=True)
    description: Mapped[str] = mapped_column(Text, default="")
    yaml: Mapped[str] = mapped_column(Text)
    axes: Mapped[dict[str, Any]]
    """Axis name to its list of values, in the file's order."""
    seeds: Mapped[list[Any]]
    analysis: Mapped[dict[str, Any]]
    first_analysis: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """The analysis as it was first submitted, where it was edited since."""
    on_failure: Mapped[str] = mapped_column(String(16), default="continue")
    """`stop` withdraws every wish that is left when a job of this sweep fails."""
    max_parallel: Mapped[int | None]
    """Jobs that may run at a time; none for as many as there are slots."""
    gpus_per_job: Mapped[int] = mapped_column(server_default="1")
    gpu_share: Mapped[float | None]
    """Part of a card that a job takes; none where recorded peak memory decides."""
    accelerator: Mapped[str | None] = mapped_column(String(63))
    """The kind of card to train on; none for any."""
    gpu_hours: Mapped[float | None]
    """The budget, in hours of whole slots; none for no bound."""
    stop_at: Mapped[datetime | None]
    """Only jobs that would end before are dispatched; none for no bound."""
    folder: Mapped[str | None] = mapped_column(Text)
    """Where the file lay: relative paths of `data.text` start there."""
    adaptive: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """What the sweep adds to itself: its `search`, `refine` and `seed_rule`; none for a plain grid.

    Under `initial` what its `init.from` stood for when it was submitted: what is added starts there too."""
    texts: Mapped[list[Any] | None] = mapped_column(JSON(none_as_null=True))
    """Of an adaptive sweep, the fields under `data` of each text with its data set's fingerprint."""
    growth: Mapped[str | None] = mapped_column(String(16))
    """Of an adaptive sweep: `growing` while the scheduler adds to it, `held` while it is paused, `over` when
    nothing is left to add, `stopped` where nothing can be, `cancelled`."""
    growth_note: Mapped[str | None] = mapped_column(Text)
    """Why growth has stopped."""
    owner: Mapped[str] = mapped_column(String(200))
    version: Mapped[int] = mapped_column(Integer, default=1)
    """Raised in the transaction of every change that shows in this sweep's results."""
    results_version: Mapped[int] = mapped_column(server_default="1")
    """Raised with `version`, but not by what a running job tells meanwhile, which no table shows."""
    created: Mapped[datetime]

    @property
    def is_exploratory(self) -> bool:
        """Whether the analysis is another than the one that was fixed at submission."""
        return self.first_analysis is not None and self.first_analysis != self.analysis


class Cell(Base):
    """A training job without its seed: one setting of a sweep's axes, or the control of such settings."""

    __tablename__ = "cell"

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    sweep_id: Mapped[int] = mapped_column(ForeignKey("sweep.id", ondelete="CASCADE"), index=True)
    position: Mapped[int]
    """Order in the plan, from 0."""
    settings: Mapped[dict[str, Any]]
    """Axis name to this cell's value; a control has only the axes that its stream reads."""
    is_control: Mapped[bool]
    control_id: Mapped[int | None] = mapped_column(ForeignKey("cell.id", ondelete="SET NULL"))
    """The control this cell is paired with, seed by seed."""


class SweepJob(Base):
    """What a sweep wants of a job. A job runs while any sweep wants it."""

    __tablename__ = "sweep_job"
    __table_args__ = (
        Index("sweep_job_job", "job_id"),
        Index("sweep_job_cell", "cell_id"),
        Index("sweep_job_position", "sweep_id", "position", "job_id"),
    )

    sweep_id: Mapped[int] = mapped_column(ForeignKey("sweep.id", ondelete="CASCADE"), primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("job.id"), primary_key=True)
    cell_id: Mapped[int] = mapped_column(ForeignKey("cell.id", ondelete="CASCADE"))
    control_job_id: Mapped[str | None] = mapped_column(ForeignKey("job.id"))
    wanted: Mapped[bool] = mapped_column(default=True)
    paused: Mapped[bool] = mapped_column(default=False)
    priority: Mapped[int] = mapped_column(default=0)
    position: Mapped[int]
    """Order of dispatch within the sweep, from 0."""


class Trial(Base):
    """A suggestion of a search. Several may be of one cell, which is trained once."""

    __tablename__ = "trial"
    __table_args__ = (one_of("state", TRIAL_STATES),)

    sweep_id: Mapped[int] = mapped_column(ForeignKey("sweep.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    """From 0, in the order of the suggestions."""
    settings: Mapped[dict[str, Any]]
    """Every axis, also those that the cell's stream does not read."""
    cell_id: Mapped[int | None] = mapped_column(ForeignKey("cell.id", ondelete="SET NULL"))
    """None where it was skipped."""
    state: Mapped[str] = mapped_column(String(16), default="open")
    value: Mapped[float | None]
    """What the sampler is told of it: a penalty for one that diverged or was skipped."""
    step: Mapped[int | None]
    """At which it was pruned."""
