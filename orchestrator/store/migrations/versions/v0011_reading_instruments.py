"""Instruments are found by their parent in one index, and what they found by the beginning of its name."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.drop_index("job_parent", "job")
    has_parent = sa.text("parent_id IS NOT NULL")
    op.create_index(
        "job_parent",
        "job",
        ["parent_id", "ended", "id", "seed", "state"],
        sqlite_where=has_parent,
        postgresql_where=has_parent,
    )
    if op.get_bind().dialect.name == "postgresql":
        op.alter_column("measurement", "name", type_=sa.String(100, collation="C"))
