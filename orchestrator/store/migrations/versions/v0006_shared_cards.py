"""Cards that jobs share, jobs that go on with less memory, and what keeps jobs from starting."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("job", sa.Column("micro_batch", sa.Integer()))
    op.add_column("attempt", sa.Column("share", sa.Double()))
    op.create_table(
        "notice",
        sa.Column("subject", sa.String(200), nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("subject"),
    )
