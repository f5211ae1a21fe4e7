"""What `headcount bench api` measures on is a sweep like any, and a figure knows its bound."""

from headcount.api.bench import filling
from headcount.api.bench.instruments import fill_instruments
from headcount.api.bench.steps import ERRORS, OF_INSTRUMENTS, _by_median, _together
from headcount.api.results import MEASURED, ablation_table, measured_table, named_table
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


def test_the_sweep_of_instruments_answers_their_tables(store: Store) -> None:
    fill_instruments(store, filling.Size("small", 2, 2))
    with store.read() as session:
        table = ablation_table(session, "small")
        found = [named_table(table, name) for name in ("width", "alignment")]
        found += [measured_table(session, "small", name) for name in MEASURED]
    assert {f"tables/{f.name}.json" for f in found} == {*OF_INSTRUMENTS, ERRORS}
    rows = {f.name: len(f.rows) for f in found}
    # 40 treatments and 10 controls; three tasks
    assert rows == {"width": 40, "alignment": 20, "errors": 50, "routing": 40, "probe": 40, "downstream": 150}


def test_questions_are_told_the_slowest_first() -> None:
    whole, *each = _by_median("any", _together([{"a": Times([1.0]), "b": Times([t])} for t in (2.0, 300.0)]))
    assert (whole.name, whole.value, whole.kept) == ("any", 300.0, False)
    assert [(f.name, f.value) for f in each] == [("  b, median", 300.0), ("  a, median", 1.0)]


def test_a_bound_is_kept_or_not() -> None:
    assert [Figure("f", 2.0, "ms", at_most=bound).kept for bound in (1.0, 2.0, None)] == [False, True, None]
    assert [Figure("f", 2.0, "×", at_least=bound).kept for bound in (2.0, 3.0)] == [True, False]
    assert "NOT KEPT" in Figure("f", 2.0, "ms", at_most=1).line()
    times = Times([float(n) for n in range(1, 201)])
    assert (times.median, times.p99) == (101.0, 199.0)
