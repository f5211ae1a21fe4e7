import pytest
from own_postgres import crash, own_postgres, url_of
from sqlalchemy import select

from headcount.orchestrator.store import open_store
from headcount.orchestrator.store.engine import StoreUnavailable
from headcount.orchestrator.store.flusher import Flusher
from headcount.orchestrator.store.journal import record
from headcount.orchestrator.store.models import Event


def test_a_server_that_crashed_since_is_not_believed() -> None:
    """It flushes what it has, which may not be what was written."""
    with own_postgres() as server:
        store = open_store(url_of(server))
        flusher = Flusher(store)
        flusher.open()
        with store.write(flushed=False) as session:
            record(session, "first")
        flusher.flush()
        crash(server)
        with pytest.raises(StoreUnavailable):
            flusher.flush()
        flusher.close()
        flusher.open()
        with store.write(flushed=False) as session:
            record(session, "second")
        flusher.flush()
        flusher.close()
        with store.read() as session:
            assert session.scalars(select(Event.kind).order_by(Event.id)).all() == ["first", "second"]
        store.close()
