"""A sweep's budget, what its jobs are given, where its file lies, and the analysis it began with."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("sweep", sa.Column("gpus_per_job", sa.Integer(), nullable=False, server_default="1"))
    op.add_column("sweep", sa.Column("gpu_share", sa.Double()))
    op.add_column("sweep", sa.Column("accelerator", sa.String(63)))
    op.add_column("sweep", sa.Column("gpu_hours", sa.Double()))
    op.add_column("sweep", sa.Column("stop_at", sa.DateTime(timezone=True)))
    op.add_column("sweep", sa.Column("folder", sa.Text()))
    op.add_column("sweep", sa.Column("first_analysis", sa.JSON()))
