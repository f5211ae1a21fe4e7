"""Answers that are kept for a client that asks again with the same idempotency key."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "answer",
        sa.Column("caller", sa.String(200), nullable=False),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("question", sa.String(64), nullable=False),
        sa.Column("content", sa.Text()),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("caller", "key"),
    )
