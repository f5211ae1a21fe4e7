"""What `headcount bench api` measures on is a sweep like any, and a figure knows its bound."""

from headcount.api.bench import filling
from headcount.api.results import ablation_table
from headcount.orchestrator.bench.figures import Figure, Times
from headcount.orchestrator.store import Store


def test_a_filled_sweep_is_whole(store: Store) -> None:
    size = filling.Size("one", 2, 3)
    filling.fill(store, size)
    filling.fill(store, filling.Size("other", 1, 1))
    with store.read() as session:
        table = ablation_table(session, "one")
    assert size.jobs == 150 == sum(row.n for row in table.rows)
    assert {row.state for row in table.rows} == {"done"}
    assert all(row.delta and row.delta.n == 3 for row in table.treatments)
    assert {row.mixed_environments for row in table.treatments} == {False, True}


def test_a_bound_is_kept_or_not() -> None:
    assert [Figure("f", 2.0, "ms", at_most=bound).kept for bound in (1.0, 2.0, None)] == [False, True, None]
    assert [Figure("f", 2.0, "×", at_least=bound).kept for bound in (2.0, 3.0)] == [True, False]
    assert "NOT KEPT" in Figure("f", 2.0, "ms", at_most=1).line()
    times = Times([float(n) for n in range(1, 201)])
    assert (times.median, times.p99) == (101.0, 199.0)
