"""How the store is asked for the cells of a sweep."""

from builders import build_sweep
from sqlalchemy import event, text

from headcount.api.results import cells
from headcount.orchestrator.store import Store


def test_jobs_are_read_from_the_index_that_holds_their_results(file_store: Store) -> None:
    with file_store.write() as session:
        build_sweep(session, heads=(1, 4), kv_heads=(2,), seeds=(0, 1))
    asked: list[str] = []
    with file_store.read() as session:
        connection = session.connection()
        event.listen(connection, "before_cursor_execute", lambda *call: asked.append(call[2]))
        assert [len(cell.results) for cell in cells(session, "head-count")] == [2, 2, 2]
        (of_jobs,) = (statement for statement in asked if "job.tail_mean" in statement)
        for value in (1, "''"):
            of_jobs = of_jobs.replace("?", str(value), 1)
        plan = [row.detail for row in connection.execute(text(f"EXPLAIN QUERY PLAN {of_jobs}"))]
    assert any("COVERING INDEX job_result" in step for step in plan), plan
