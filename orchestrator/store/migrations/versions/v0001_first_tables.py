"""The first schema: thirteen tables, wishes and facts apart."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "dataset",
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("manifest", sa.JSON(), nullable=False),
        sa.Column("created", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("fingerprint"),
    )
    op.create_table(
        "job",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("parent_id", sa.String(64)),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("seed", sa.Integer(), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("numerics", sa.Integer(), nullable=False),
        sa.Column("parameters", sa.BigInteger(), nullable=False),
        sa.Column("flops", sa.Double(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("tail_mean", sa.Double()),
        sa.Column("diverged_step", sa.Integer()),
        sa.Column("forgiven_attempts", sa.Integer(), nullable=False),
        sa.Column("created", MOMENT, nullable=False),
        sa.Column("ended", MOMENT),
        sa.CheckConstraint("kind IN ('train', 'probe', 'evaluate', 'convert')", name="kind_known"),
        sa.CheckConstraint(
            "state IN ('queued', 'running', 'cancelling', 'finished', 'diverged', 'failed', 'cancelled')",
            name="state_known",
        ),
        sa.ForeignKeyConstraint(["parent_id"], ["job.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_job_state", "job", ["state"])
    op.create_table(
        "lease",
        sa.Column("name", sa.String(32), nullable=False),
        sa.Column("holder", sa.String(200), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("expires", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "sweep",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("yaml", sa.Text(), nullable=False),
        sa.Column("axes", sa.JSON(), nullable=False),
        sa.Column("seeds", sa.JSON(), nullable=False),
        sa.Column("analysis", sa.JSON(), nullable=False),
        sa.Column("on_failure", sa.String(16), nullable=False),
        sa.Column("max_parallel", sa.Integer()),
        sa.Column("owner", sa.String(200), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "token",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("created", MOMENT, nullable=False),
        sa.Column("expires", MOMENT),
        sa.Column("revoked", MOMENT),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("sha256"),
    )
    op.create_table(
        "attempt",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("slot", sa.String(100), nullable=False),
        sa.Column("node", sa.String(200), nullable=False),
        sa.Column("last_event", sa.Integer(), nullable=False),
        sa.Column("start_step", sa.Integer()),
        sa.Column("environment", sa.JSON()),
        sa.Column("started", MOMENT, nullable=False),
        sa.Column("ended", MOMENT),
        sa.Column("cause", sa.String(16)),
        sa.Column("message", sa.Text()),
        sa.Column("log", sa.String(500)),
        sa.CheckConstraint(
            "cause IN ('finished', 'diverged', 'user_error', 'gpu_memory', 'host_memory', "
            "'slot_lost', 'node_lost', 'preempted', 'cancelled', 'timed_out', 'data_differs')",
            name="cause_known",
        ),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("attempt_job", "attempt", ["job_id", "number"], unique=True)
    op.create_table(
        "cell",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("sweep_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("is_control", sa.Boolean(), nullable=False),
        sa.Column("control_id", sa.Integer()),
        sa.ForeignKeyConstraint(["control_id"], ["cell.id"], ondelete="SET NULL"),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweep.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_cell_sweep_id", "cell", ["sweep_id"])
    op.create_table(
        "event",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("sweep_id", sa.Integer()),
        sa.Column("job_id", sa.String(64)),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.Column("created", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"]),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweep.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_event_sweep_id", "event", ["sweep_id"])
    op.create_table(
        "measurement",
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("value", sa.Double()),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"]),
        sa.PrimaryKeyConstraint("job_id", "name"),
    )
    op.create_table(
        "artifact",
        sa.Column("key", sa.String(500), nullable=False),
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("attempt_id", sa.Integer()),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("step", sa.Integer()),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("created", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempt.id"]),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"]),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_index("ix_artifact_job_id", "artifact", ["job_id"])
    op.create_table(
        "evaluation",
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("attempt_id", sa.Integer(), nullable=False),
        sa.Column("loss", sa.Double()),
        sa.Column("window_losses", sa.JSON()),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempt.id"]),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"]),
        sa.PrimaryKeyConstraint("job_id", "step"),
    )
    op.create_table(
        "progress",
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("attempt_id", sa.Integer(), nullable=False),
        sa.Column("loss", sa.Double()),
        sa.Column("learning_rate", sa.Double(), nullable=False),
        sa.Column("gradient_norm", sa.Double()),
        sa.Column("tokens_per_second", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempt.id"]),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"]),
        sa.PrimaryKeyConstraint("job_id", "step"),
    )
    op.create_table(
        "sweep_job",
        sa.Column("sweep_id", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("cell_id", sa.Integer(), nullable=False),
        sa.Column("control_job_id", sa.String(64)),
        sa.Column("wanted", sa.Boolean(), nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["cell_id"], ["cell.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["control_job_id"], ["job.id"]),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"]),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweep.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("sweep_id", "job_id"),
    )
    op.create_index("sweep_job_cell", "sweep_job", ["cell_id"])
    op.create_index("sweep_job_job", "sweep_job", ["job_id"])
