"""Two questions at a time: of one state, and what goes wrong with one is told."""

from threading import get_ident

import pytest
from plans import submit_text
from sqlalchemy import func, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from headcount.orchestrator.store import Store
from headcount.orchestrator.store.asking_ahead import asked_ahead
from headcount.orchestrator.store.journal import record
from headcount.orchestrator.store.models import Event


def _events(session: Session) -> int:
    return session.scalar(select(func.count()).select_from(Event)) or 0


def test_both_answers_are_of_one_state(store: Store) -> None:
    submit_text(store)
    with store.read() as session:
        before = _events(session)
        with store.write() as writing:
            record(writing, "meanwhile")
        with asked_ahead(session, _events) as answer:
            assert (_events(session), answer()) == (before, before)
    with store.read() as session, asked_ahead(session, _events) as answer:
        assert answer() == before + 1


def test_postgresql_is_asked_over_a_connection_of_its_own(store: Store) -> None:
    with store.read() as session, asked_ahead(session, lambda _: get_ident()) as answer:
        assert (answer() == get_ident()) is (store.file is not None)
    with store.write() as session:
        record(session, "unseen by others")
        with asked_ahead(session, _events) as answer:
            assert answer() == 1


def test_what_goes_wrong_is_raised_where_the_answer_is_taken(store: Store) -> None:
    with store.read() as session:
        with asked_ahead(session, lambda other: other.execute(text("SELECT nothing"))) as answer:
            mine = _events(session)
            with pytest.raises(DBAPIError, match="nothing"):
                answer()
        with pytest.raises(KeyError, match="mine"), asked_ahead(session, _events):
            raise KeyError("mine")
        assert _events(session) == mine  # and the session is as it was
    assert store.engine.pool.checkedout() == 0  # type: ignore[attr-defined]
