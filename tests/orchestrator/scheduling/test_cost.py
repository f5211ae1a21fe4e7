"""What a job costs the store, in statements and commits: counts do not hang on the machine as times do."""

from typing import Any

import pytest
from scheduled import asked_for, attempts, settled, work
from sqlalchemy import event

from headcount.orchestrator.bench.stand_in import StandIn
from headcount.orchestrator.store import Store

JOBS = 50
MOST_STATEMENTS = {"sqlite": 13, "postgresql": 6}
"""Of a transaction in which jobs end and others begin, however many: to know the lease, to read what was
told, what is wished and what waits, to open attempts, and a statement for rows of each kind, or on PostgreSQL
for all of them. There each is a round trip: the first begins the transaction, the last takes the commit."""


@pytest.mark.parametrize("slots", [2, 25])
def test_a_transaction_ends_jobs_and_begins_others_with_few_statements(store: Store, slots: int) -> None:
    """Jobs that take no time have told all when they are heard, on every slot at once."""
    asked_for(store, JOBS)
    transactions: list[list[str]] = [[]]

    def note(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if connection.get_execution_options().get("headcount_writes"):
            transactions[-1].append(statement)

    def note_commit(connection: Any) -> None:
        if connection.get_execution_options().get("headcount_writes"):
            transactions.append([])

    event.listen(store.engine, "before_cursor_execute", note)
    event.listen(store.engine, "commit", note_commit)
    cluster = StandIn(slots, job_seconds=0)
    work(store, cluster, lambda: len(cluster.jobs) == JOBS and settled(store) == {"finished": JOBS})
    assert attempts(store) == [("finished", JOBS)]
    ending = [found for found in transactions if any("INTO evaluation" in statement for statement in found)]
    beginning = [found for found in transactions if any("INTO attempt" in statement for statement in found)]
    assert len(ending) <= JOBS // slots + 1
    most = MOST_STATEMENTS[store.engine.dialect.name]
    assert max(map(len, ending)) <= most, "\n".join(max(ending, key=len))
    apart = [found for found in beginning if found not in ending]
    assert len(apart) <= 2, "jobs begin in the transaction in which others end, but for the first"
