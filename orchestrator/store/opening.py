"""Opening a store: where it lies, and at the newest schema."""

from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store.disk import refuse_network_disk
from headcount.orchestrator.store.engine import Store, clear_errors, new_engine
from headcount.orchestrator.store.migrations.upgrade import upgrade


def open_store(where: Settings | str) -> Store:
    """Open, and bring to the newest schema, the store of `settings` or at an SQLAlchemy URL.

    Raises `UserError` where it cannot be opened or written, on a network disk (SQLite), and where a newer
    Headcount has written it.
    """
    url = where.database_url if isinstance(where, Settings) else where
    store = Store(new_engine(url))
    if store.file is not None:
        refuse_network_disk(store.file)
    try:
        with clear_errors(store.engine):
            upgrade(store)
    except BaseException:
        store.close()
        raise
    return store
