"""What `headcount bench api` measures on is a sweep like any, and a figure knows its bound."""

import itertools
import random
import time

from headcount.api.bench import filling
from headcount.api.bench.burning import burn
from headcount.api.bench.instruments import fill_instruments
from headcount.api.bench.tables import OF_INSTRUMENTS, OF_LOSSES, _by_table, _together
from headcount.api.results import MEASURED, TABLES, ablation_table, measured_table, named_table
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
    fill_instruments(store, filling.Size("small", 4, 1))
    with store.read() as session:
        table = ablation_table(session, "small")
        asked = [name.removeprefix("tables/").removesuffix(".json") for name in OF_INSTRUMENTS]
        found = {
            name: measured_table(session, "small", name) if name in MEASURED else named_table(table, name)
            for name in asked
        }
    # 80 treatments and 20 controls; three tasks; half of the treatments have an aligned stream
    rows = {"width": 80, "alignment": 40, "scaling": 100, "errors": 100}
    rows |= {"routing": 80, "probe": 80, "downstream": 300}
    assert {name: len(table.rows) for name, table in found.items()} == rows


def test_every_table_is_asked_for() -> None:
    asked = {question.partition("?")[0] for question in (*OF_LOSSES, *OF_INSTRUMENTS)}
    assert asked >= {f"tables/{name}.json" for name in (*TABLES, *MEASURED)}
    assert asked >= {"table.json", "table.csv", "free.json"}


def test_the_tables_of_a_filled_sweep_answer(store: Store) -> None:
    filling.fill(store, filling.Size("one", 2, 3))
    names = [name.removeprefix("tables/").removesuffix(".json") for name in OF_LOSSES]
    with store.read() as session:
        table = ablation_table(session, "one")
    assert all(named_table(table, name).rows for name in names if name in TABLES)


def test_tables_are_told_the_slowest_first() -> None:
    whole, *each = _by_table("any", _together([{"a": Times([1.0]), "b": Times([t])} for t in (2.0, 300.0)]))
    assert (whole.name, whole.value, whole.kept) == ("any", 300.0, False)
    assert [(f.name, f.value) for f in each] == [("  b", 300.0), ("  a", 1.0)]


def test_a_bound_is_kept_or_not() -> None:
    assert [Figure("f", 2.0, "ms", at_most=bound).kept for bound in (1.0, 2.0, None)] == [False, True, None]
    assert [Figure("f", 2.0, "×", at_least=bound).kept for bound in (2.0, 3.0)] == [True, False]
    assert "NOT KEPT" in Figure("f", 2.0, "ms", at_most=1).line()
    times = Times([float(n) for n in range(1, 201)])
    assert (times.median, times.p99) == (101.0, 199.0)


def test_computing_beside_a_writer_takes_as_long_as_it_is_told() -> None:
    begun = time.thread_time()
    burn(milliseconds=4.0, per_second=100.0, seconds=0.5)
    draws = random.Random(0)
    moments = itertools.accumulate(draws.expovariate(100.0) for _ in range(200))
    times = 1 + sum(moment < 0.5 for moment in moments)
    assert 30 < times < 70
    assert 0.004 * times <= time.thread_time() - begun < 0.005 * times + 0.05
