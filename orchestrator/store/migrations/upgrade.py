"""Bringing a store to the newest schema; without Alembic's import where it is there already."""

from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from headcount.orchestrator.store.engine import Store
from headcount.trainer.errors import UserError

if TYPE_CHECKING:
    from alembic.config import Config

HEAD = "0012"
"""The newest revision in `versions`."""


def upgrade(store: Store) -> None:
    """Migrate to `HEAD`. Raises `UserError` for a store of a newer Headcount, or of something else."""
    with store.engine.connect() as connection:
        if _revision(connection) == HEAD:
            return
    from alembic import command
    from alembic.script import ScriptDirectory

    config = alembic_config()
    with store.write() as session:
        connection = session.connection()
        revision = _revision(connection)  # again, now that no other process migrates
        known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
        if revision is not None and revision not in known:
            raise UserError(
                f"the store {store.engine.url.render_as_string()} was written by a newer Headcount "
                f"(schema {revision}, this one knows {HEAD}); upgrade this one"
            )
        if revision is None and inspect(connection).has_table("sweep"):
            raise UserError(
                f"the store {store.engine.url.render_as_string()} has tables that Headcount did not make; "
                "set HEADCOUNT_DATABASE_URL to another one"
            )
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def alembic_config() -> "Config":
    """Alembic's configuration, with no file: the scripts are in this package."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "headcount.orchestrator.store:migrations")
    config.set_main_option("path_separator", "os")
    return config


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return revision
