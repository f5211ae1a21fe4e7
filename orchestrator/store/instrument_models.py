"""The table of what sweeps want to be measured of their finished jobs."""

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from headcount.orchestrator.store.columns import Base


class SweepInstrument(Base):
    """A sweep's wish for an instrument, a job whose parent is one of the sweep's training jobs.

    Its priority, its place in the order and whether it is paused are those of the wish for the parent.
    """

    __tablename__ = "sweep_instrument"
    __table_args__ = (Index("sweep_instrument_job", "job_id"),)

    sweep_id: Mapped[int] = mapped_column(ForeignKey("sweep.id", ondelete="CASCADE"), primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("job.id"), primary_key=True)
    wanted: Mapped[bool] = mapped_column(default=True)
