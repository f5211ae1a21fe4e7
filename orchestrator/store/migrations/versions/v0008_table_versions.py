"""Tables have a data version of their own; a sweep's jobs are read in the order of dispatch by an index."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("sweep", sa.Column("results_version", sa.Integer(), nullable=False, server_default="1"))
    op.create_index("sweep_job_position", "sweep_job", ["sweep_id", "position", "job_id"])
