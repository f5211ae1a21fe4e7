"""What jobs tell refers to its attempt or sweep alone: PostgreSQL asks for each reference of each row anew.

An attempt refers to its job, so that an evaluation and a point of progress have one as before. An event names
the job that it is about.
"""

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    names = {"fk": "%(table_name)s_%(column_0_name)s_fkey"}  # PostgreSQL's; SQLite gave none
    for table in ("evaluation", "progress", "event"):
        with op.batch_alter_table(table, naming_convention=names) as batch:
            batch.drop_constraint(f"{table}_job_id_fkey", type_="foreignkey")
