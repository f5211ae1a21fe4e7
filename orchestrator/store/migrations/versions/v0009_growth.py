"""Sweeps may add cells and seeds to themselves; a search keeps what it suggested."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

TRIAL_STATES = "state IN ('open', 'complete', 'pruned', 'skipped', 'failed')"


def upgrade() -> None:
    op.add_column("sweep", sa.Column("adaptive", sa.JSON()))
    op.add_column("sweep", sa.Column("texts", sa.JSON()))
    op.add_column("sweep", sa.Column("growth", sa.String(16)))
    op.add_column("sweep", sa.Column("growth_note", sa.Text()))
    op.create_table(
        "trial",
        sa.Column("sweep_id", sa.Integer(), sa.ForeignKey("sweep.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("number", sa.Integer(), primary_key=True),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("cell_id", sa.Integer(), sa.ForeignKey("cell.id", ondelete="SET NULL")),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("value", sa.Double()),
        sa.Column("step", sa.Integer()),
        sa.CheckConstraint(TRIAL_STATES, name="state_known"),
    )
