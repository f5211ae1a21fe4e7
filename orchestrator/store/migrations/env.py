"""Alembic runs this file; the connection comes from `upgrade`, whose transaction it stays in."""

from alembic import context

from headcount.orchestrator.store.models import Base

context.configure(
    connection=context.config.attributes["connection"], target_metadata=Base.metadata, render_as_batch=True
)
context.run_migrations()
