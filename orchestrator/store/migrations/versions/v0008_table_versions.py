"""Tables have a data version of their own, and read losses and measurements from indexes alone."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("sweep", sa.Column("results_version", sa.Integer(), nullable=False, server_default="1"))
    op.create_index("sweep_job_position", "sweep_job", ["sweep_id", "position", "job_id"])
    result = ["id", "kind", "state", "seed", "tail_mean", "diverged_step", "parameters", "flops"]
    op.create_index("job_parent", "job", ["parent_id"])
    op.create_index("job_result", "job", result)
    op.create_index("measurement_value", "measurement", ["job_id", "name", "value"])
