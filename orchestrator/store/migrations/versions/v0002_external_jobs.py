"""Results from elsewhere: jobs of the kind `external`."""

from alembic import op
from sqlalchemy import Connection, text

revision = "0002"
down_revision = "0001"

_BEFORE = "kind IN ('train', 'probe', 'evaluate', 'convert')"
_AFTER = "kind IN ('train', 'probe', 'evaluate', 'convert', 'external')"


def upgrade() -> None:
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":
        _rewrite_check(connection)
        return
    op.drop_constraint("kind_known", "job", type_="check")
    op.create_check_constraint("kind_known", "job", _AFTER)


def _rewrite_check(connection: Connection) -> None:
    """Widen the check in the table's definition, as SQLite advises where no stored byte changes.

    Its other way, a new table in place of the old, would need foreign keys off, which no transaction can do.
    See https://www.sqlite.org/lang_altertable.html, section 7.
    """
    version = connection.execute(text("PRAGMA schema_version")).scalar_one()
    connection.execute(text("PRAGMA writable_schema = ON"))
    changed = connection.execute(
        text("UPDATE sqlite_master SET sql = replace(sql, :before, :after) WHERE name = 'job'"),
        {"before": _BEFORE, "after": _AFTER},
    )
    assert changed.rowcount == 1
    connection.execute(text(f"PRAGMA schema_version = {version + 1}"))
    connection.execute(text("PRAGMA writable_schema = OFF"))
