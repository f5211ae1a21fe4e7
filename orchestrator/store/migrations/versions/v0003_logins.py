"""Tokens can be recognised and say when they were last used; a browser's login is a row of its own."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column("token", sa.Column("start", sa.String(16), nullable=False, server_default=""))
    op.add_column("token", sa.Column("last_used", MOMENT))
    op.create_table(
        "login",
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("token_id", sa.Integer(), nullable=False),
        sa.Column("expires", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["token_id"], ["token.id"]),
        sa.PrimaryKeyConstraint("sha256"),
    )
