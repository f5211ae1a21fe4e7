"""Sweeps may want instruments: probes and downstream evaluations of their finished jobs."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.create_table(
        "sweep_instrument",
        sa.Column("sweep_id", sa.Integer(), sa.ForeignKey("sweep.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("job_id", sa.String(64), sa.ForeignKey("job.id"), primary_key=True),
        sa.Column("wanted", sa.Boolean(), nullable=False),
    )
    op.create_index("sweep_instrument_job", "sweep_instrument", ["job_id"])
