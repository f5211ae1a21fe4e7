"""Rows reach the tables as they are told, whatever is in them."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from plans import SWEEP, start_next, submit_text
from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import Attempt, Base, Evaluation, Event, Job, Sweep
from headcount.orchestrator.store.sending import Write, write_all

LOSSES = [0.1 + 0.2, 3.4000000000000004, -1e-300, 1.7976931348623157e308, 5.0, None]
"""Numbers that need every digit."""

MOMENT = datetime(2026, 2, 3, tzinfo=UTC)


def test_numbers_are_told_exactly(store: Store) -> None:
    submit_text(store, SWEEP)
    with store.write() as session:
        work = start_next(session)
        rows: list[dict[str, Any]] = [
            {
                "job_id": work.job_id,
                "step": step,
                "attempt_id": work.attempt_id,
                "loss": loss,
                "window_losses": [loss, 1 / 3] if step else None,
            }
            for step, loss in enumerate(LOSSES)
        ]
        write_all(session, [Write("insert", Base.metadata.tables["evaluation"], rows)])
        assert _rows(session, Evaluation, *rows[0]) == rows
        changed = [{"id": work.job_id, "tail_mean": 2 / 3, "state": "finished", "diverged_step": None}]
        write_all(session, [Write("set", Base.metadata.tables["job"], changed)])
        [job] = [row for row in _rows(session, Job, *changed[0]) if row["id"] == work.job_id]
        assert job == changed[0]


def test_rows_of_several_jobs_are_set_each_by_its_own(store: Store) -> None:
    submit_text(store, SWEEP)
    with store.write() as session:
        works = [start_next(session) for _ in range(3)]
        ended = datetime(2026, 2, 3, 4, 5, 6, 789012, tzinfo=timezone(timedelta(hours=2)))
        rows = [
            {
                "id": work.attempt_id,
                "last_event": 10 * n,
                "environment": {"threads": [n, "ä"]},
                "ended": ended,
            }
            for n, work in enumerate(works)
        ]
        write_all(session, [Write("set", Base.metadata.tables["attempt"], rows[:2])])
        assert _rows(session, Attempt, "id", "last_event", "environment", "ended") == [
            *rows[:2],
            {"id": works[2].attempt_id, "last_event": -1, "environment": None, "ended": None},
        ]


def test_several_tables_are_written_at_once(store: Store) -> None:
    submit_text(store, SWEEP)
    tables = Base.metadata.tables
    with store.write() as session:
        works = [start_next(session) for _ in range(2)]
        [before] = _rows(session, Sweep, "id", "version", "results_version")
        row = {"sweep_id": before["id"], "job_id": works[0].job_id, "kind": "told", "created": MOMENT}
        events = [row | {"detail": {"step": step}} for step in range(3)]
        write_all(
            session,
            [
                Write("insert", tables["event"], events),
                Write("set", tables["job"], [{"id": works[0].job_id, "step": 7}]),
                Write("set", tables["job"], [{"id": works[1].job_id, "step": 8, "state": "finished"}]),
                Write("insert", tables["evaluation"], []),
                Write("add", tables["sweep"], [{"id": before["id"], "version": 1, "results_version": 0}]),
            ],
        )
        jobs = {job["id"]: job for job in _rows(session, Job, "id", "step", "state")}
        assert jobs[works[0].job_id] == {"id": works[0].job_id, "step": 7, "state": "running"}
        assert jobs[works[1].job_id] == {"id": works[1].job_id, "step": 8, "state": "finished"}
        assert sum(job["step"] for job in jobs.values()) == 15
        assert _rows(session, Event, *events[0])[-3:] == events
        assert _rows(session, Sweep, *before) == [before | {"version": before["version"] + 1}]


def test_text_that_no_table_can_hold_is_told_as_far_as_it_can(store: Store) -> None:
    """PostgreSQL has no character 0 and no half of one; SQLite's JSON has both."""
    said = "half \udcff, zero \0, backslash \\u0000 and \\\0"
    row = {"sweep_id": None, "job_id": None, "kind": "unsent", "detail": {"message": said}, "created": MOMENT}
    kept = said if store.file else "half ?, zero ?, backslash \\u0000 and \\?"
    with store.write() as session:
        write_all(session, [Write("insert", Base.metadata.tables["event"], [row])])
        assert _rows(session, Event, *row) == [row | {"detail": {"message": kept}}]


def _rows(session: Session, table: type[Base], *columns: str) -> list[dict[str, Any]]:
    """All rows of a table in the order of its key."""
    found = select(*(getattr(table, name) for name in columns)).order_by(*table.__mapper__.primary_key)
    return [dict(row) for row in session.execute(found).mappings()]
