"""What goes to PostgreSQL together, by libpq's own trace of a connection."""

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from plans import SWEEP, evaluation, start_next, submit_text
from psycopg.pq import Trace
from sqlalchemy import func, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from headcount.orchestrator.store import Store, StoreUnavailable, open_store
from headcount.orchestrator.store.changes import gathered
from headcount.orchestrator.store.journal import now, record
from headcount.orchestrator.store.models import Base, Evaluation, Event, Sweep
from headcount.orchestrator.store.recording import record_events
from headcount.orchestrator.store.sending import Write, sent_together, write_all

EVENT = Base.metadata.tables["event"]
EVALUATION = Base.metadata.tables["evaluation"]


@pytest.fixture
def store(postgres: Callable[[], str]) -> Iterator[Store]:
    opened = open_store(postgres())
    yield opened
    opened.close()


def test_a_transaction_that_records_what_a_slot_told_is_two_round_trips(store: Store) -> None:
    submit_text(store, SWEEP)
    with store.write() as session:
        attempt = start_next(session).attempt_id
    told = [{"kind": "started", "step": 0, "environment": {}}, evaluation(0, 5.5)]
    with store.write() as session:
        record_events(session, attempt, 0, told)
    with _traced(store) as trips, store.write() as session:
        record_events(session, attempt, 2, [evaluation(10, 4.0)])
    assert len(trips) == 2
    with store.read() as session:
        assert session.scalars(select(Evaluation.step).order_by(Evaluation.step)).all() == [0, 10]
        assert session.scalars(select(Event.kind).order_by(Event.id)).all()[-2:] == ["evaluated"] * 2


def test_reading_begins_with_the_first_question(store: Store) -> None:
    with _traced(store) as trips, store.read() as session:
        assert session.scalar(text("SHOW transaction_isolation")) == "repeatable read"
        assert session.scalar(text("SHOW transaction_read_only")) == "on"
    assert len(trips) == 3  # and the commit


def test_a_transaction_in_which_nothing_is_asked_is_none(store: Store) -> None:
    with _traced(store) as trips:
        with store.write():
            pass
        with store.read():
            pass
        with pytest.raises(ZeroDivisionError), store.write():
            raise ZeroDivisionError
    assert len(trips) == 0


def test_the_first_question_is_asked_with_the_lock_held(store: Store) -> None:
    locks = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()")
    waits = text("SELECT count(*) FROM pg_settings WHERE name = 'synchronous_commit' AND source = 'session'")
    for flushed in (True, False):
        with store.write(flushed=flushed) as session:
            assert session.scalar(locks) == 1
            assert session.scalar(waits) == (0 if flushed else 1)


def test_a_stream_of_rows_may_be_the_first_question(store: Store) -> None:
    with store.write() as session:
        for kind in ("one", "two"):
            record(session, kind)
    with store.read() as session:
        kinds = select(Event.kind).order_by(Event.id)
        assert list(session.scalars(kinds, execution_options={"yield_per": 1})) == ["one", "two"]


def test_rows_may_be_copied_first(store: Store) -> None:
    with suppress(ZeroDivisionError), store.write() as session:
        driver: Any = session.connection().connection.driver_connection
        with driver.cursor().copy("COPY event (kind, detail, created) FROM STDIN") as copy:
            copy.write_row(("copied", "{}", "2026-02-03"))
        raise ZeroDivisionError
    with store.read() as session:
        assert session.scalars(select(Event.kind)).all() == []


def test_an_error_of_what_was_sent_is_raised_by_the_commit(store: Store) -> None:
    with pytest.raises(IntegrityError, match="evaluation_attempt_id_fkey"):
        _write_wrongly(store)
    with store.write() as session:  # the connection is as good as new
        record(session, "after")
    with store.read() as session:
        assert session.scalars(select(Event.kind)).all() == ["after"]


def test_an_error_of_what_was_sent_is_raised_by_the_next_question(store: Store) -> None:
    with suppress(ZeroDivisionError), store.write() as session:
        with sent_together(session):
            write_all(session, [Write("insert", EVALUATION, [_OF_NOBODY])])
        with pytest.raises(IntegrityError, match="evaluation_attempt_id_fkey"):
            session.scalar(text("SELECT 1"))
        raise ZeroDivisionError
    with store.read() as session:
        assert session.scalars(select(Evaluation.step)).all() == []


def test_what_was_sent_is_undone_with_the_transaction(store: Store) -> None:
    with suppress(ZeroDivisionError), store.write() as session:
        _tell(session, "sent")
        raise ZeroDivisionError
    with store.write() as session:
        assert session.scalars(select(Event.kind)).all() == []


def test_the_next_question_sees_what_was_sent(store: Store) -> None:
    with _traced(store) as trips, store.write() as session:
        _tell(session, "one")
        assert session.scalars(select(Event.kind)).all() == ["one"]
        _tell(session, "two")
        _tell(session, "three")
    assert len(trips) == 2
    with store.read() as session:
        assert session.scalars(select(Event.kind).order_by(Event.id)).all() == ["one", "two", "three"]


@pytest.mark.parametrize("asks", [False, True], ids=["at the commit", "at a question"])
def test_a_server_that_goes_away_meanwhile_is_one_clear_error(store: Store, asks: bool) -> None:
    def write() -> None:
        with store.write() as session:
            with sent_together(session):
                session.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
                write_all(session, [Write("insert", EVENT, [_event("lost")])])
            if asks:
                session.scalar(text("SELECT 1"))

    with pytest.raises(StoreUnavailable, match="does not answer"):
        write()
    with store.read() as session:
        assert session.scalars(select(Event.kind)).all() == []


def test_who_follows_the_events_of_several_writers_misses_none(store: Store) -> None:
    """The lock is held until the commit that went with the last statement: no id comes below one seen."""
    submit_text(store, SWEEP)
    with store.read() as session:
        sweep = session.scalars(select(Sweep.id)).one()
        last = session.scalar(select(func.max(Event.id)))

    def write(writer: int) -> None:
        for _ in range(20):
            with store.write() as session, gathered(session) as changes:
                changes.tell([sweep], "ab" * 32, f"told by {writer}", {})

    seen: list[int] = []
    with ThreadPoolExecutor(3) as pool:
        writing = [pool.submit(write, writer) for writer in range(3)]
        while not all(writer.done() for writer in writing) or len(seen) < 60:
            with store.read() as session:
                seen += session.scalars(select(Event.id).where(Event.id > (seen[-1] if seen else last))).all()
    with store.read() as session:
        told = select(Event.id).where(Event.kind.startswith("told by")).order_by(Event.id)
        assert session.scalars(told).all() == seen
    assert [writer.result() for writer in writing] == [None] * 3


def _tell(session: Session, kind: str) -> None:
    with sent_together(session):
        write_all(session, [Write("insert", EVENT, [_event(kind)])])


def _event(kind: str) -> dict[str, Any]:
    return {"sweep_id": None, "job_id": None, "kind": kind, "detail": {}, "created": now()}


def _write_wrongly(store: Store) -> None:
    with store.write() as session:
        _tell(session, "before")
        with sent_together(session):
            write_all(session, [Write("insert", EVALUATION, [_OF_NOBODY])])
            write_all(session, [Write("insert", EVENT, [_event("behind")])])


_OF_NOBODY = {"job_id": "ab" * 32, "step": 0, "attempt_id": 1, "loss": 1.0, "window_losses": None}


@contextmanager
def _traced(store: Store) -> Iterator[list[str]]:
    """At the end, the round trips that the store's one idle connection made."""
    with store.read() as session:
        session.scalar(text("SELECT 1"))
        driver: Any = session.connection().connection.driver_connection
    trips: list[str] = []
    with tempfile.TemporaryFile("w+", encoding="utf-8") as trace:
        driver.pgconn.trace(trace.fileno())
        driver.pgconn.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)
        yield trips
        driver.pgconn.untrace()
        trace.seek(0)
        sent = [line.split()[2] for line in trace if line.startswith("F\t")]
    # a message that is answered at once: the end of a pipeline, or a statement by itself
    trips += [what for what in sent if what in ("Sync", "Query")]
