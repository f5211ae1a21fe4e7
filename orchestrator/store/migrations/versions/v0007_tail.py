"""A sweep may report the mean of another number of evaluations than the last quarter's."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("job", sa.Column("tail", sa.Integer()))
