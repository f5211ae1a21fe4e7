"""The list of sweeps: its filters and orders, what it says of each, and what it does not compute again."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import build_sweep
from fastapi.testclient import TestClient
from sqlalchemy import event, select
from sqlalchemy.orm import Session

from headcount.api.results import QueryError, ablation_table, best_cell
from headcount.dashboard import text
from headcount.dashboard.html import sweeps_html
from headcount.dashboard.pages import sweeps as sweep_list
from headcount.dashboard.pages.sweeps import Asked, Lines, asked
from headcount.orchestrator.store import Store, open_store
from headcount.orchestrator.store.models import Job, Sweep


def names(lines: Lines, session: Session, **query: str) -> list[str]:
    return [line.summary.name for line in lines.page(session, asked(query)).lines]


@pytest.fixture
def own_store(tmp_path: Path) -> Iterator[Store]:
    """Four sweeps of three owners."""
    store = open_store(f"sqlite:///{tmp_path / 'headcount.db'}")
    small = {"heads": (1, 2, 4), "kv_heads": (1,), "seeds": (0, 1), "curves": False}
    with store.write() as session:
        for i, (name, owner) in enumerate((("b", "Zoë"), ("a", "ada"), ("d", "ada"), ("c", "Émile"))):
            states = {(4, 1, 10.0**-i, 1): "running"} if name == "d" else {}
            sweep = build_sweep(session, name, rates=(10.0**-i,), states=states, random=i, **small)
            session.get_one(Sweep, sweep).owner = owner
        session.scalars(select(Sweep).where(Sweep.name == "a")).one().description = "Ünusual <b>"
    yield store
    store.close()


@pytest.fixture
def own(own_store: Store) -> Iterator[Session]:
    with own_store.read() as session:
        yield session


def test_each_order_and_its_reverse(own: Session) -> None:
    lines = Lines({})
    assert names(lines, own) == ["c", "d", "a", "b"]
    assert names(lines, own, sort="submitted") == ["c", "d", "a", "b"]  # all at the same time
    assert names(lines, own, sort="name") == ["a", "b", "c", "d"]
    assert names(lines, own, sort="-name") == ["d", "c", "b", "a"]
    assert names(lines, own, sort="owner") == ["d", "a", "b", "c"]
    assert names(lines, own, sort="progress")[0] == "d"
    assert names(lines, own, sort="state") == ["d", "c", "a", "b"]
    deltas = {}
    for name in "abcd":
        table = ablation_table(own, name)
        best = best_cell(table.treatments)
        assert best is not None
        delta = table.row(best).delta
        assert delta is not None
        deltas[name] = delta.mean
    assert names(lines, own, sort="delta") == sorted(deltas, key=lambda name: deltas[name] or 0.0)


def test_the_filters_go_together_and_say_how_many_there_are(own: Session) -> None:
    lines = Lines({})
    assert names(lines, own, q="ADA") == ["d", "a"]
    assert names(lines, own, q=" ünusual ") == ["a"]
    assert names(lines, own, owner="ada", state="done") == ["a"]
    page = lines.page(own, asked({"q": "nothing"}))
    assert (page.lines, page.found, page.all, page.owners) == ((), 0, 4, ("Zoë", "ada", "Émile"))


def test_above_its_bound_the_list_asks_for_a_filter(own: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_list, "MOST_LINES", 2)
    page = Lines({}).page(own, Asked(sort="name"))
    assert ([line.summary.name for line in page.lines], page.found) == (["a", "b"], 4)


def test_only_what_changed_is_read_again(own_store: Store) -> None:
    lines = Lines({})
    statements: list[str] = []
    event.listen(own_store.engine, "before_cursor_execute", lambda *a: statements.append(a[2]))
    with own_store.read() as session:
        first = lines.page(session, Asked())
    cold = len(statements)
    statements.clear()
    with own_store.read() as session:
        assert lines.page(session, Asked()) == first
    assert len([s for s in statements if s.startswith("SELECT")]) == 1
    with own_store.write() as session:
        session.scalars(select(Sweep).where(Sweep.name == "a")).one().version += 1
        for job in session.scalars(select(Job)):
            job.tail_mean = (job.tail_mean or 0.0) + 1.0
    statements.clear()
    with own_store.read() as session:
        changed = {line.summary.name: line for line in lines.page(session, Asked()).lines}
    assert len(statements) < cold / 2
    before = {line.summary.name: line for line in first.lines}
    assert changed["b"] is before["b"]
    assert changed["a"].brief
    assert before["a"].brief
    assert changed["a"].brief.best.mean == pytest.approx((before["a"].brief.best.mean or 0.0) + 1.0)


def test_of_a_deleted_sweep_nothing_is_kept(own_store: Store) -> None:
    lines = Lines({})
    with own_store.read() as session:
        lines.page(session, Asked())
    with own_store.write() as session:
        session.delete(session.scalars(select(Sweep).where(Sweep.name == "a")).one())
    with own_store.read() as session:
        assert names(lines, session, sort="name") == ["b", "c", "d"]
    assert "a" not in lines._kept


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"stat": "done"}, "did you mean 'state'?"),
        ({"state": "dome"}, "did you mean 'done'?"),
        ({"sort": "-deltas"}, "did you mean 'delta'?"),
    ],
)
def test_what_it_does_not_know_is_told(query: dict[str, str], message: str) -> None:
    with pytest.raises(QueryError, match=re.escape(message)):
        asked(query)


def test_the_page_has_the_best_cell_and_its_curve(client: TestClient, session: Session) -> None:
    html = client.get("/", follow_redirects=True).text
    table = ablation_table(session, "head-count")
    best = best_cell(table.treatments)
    assert best is not None
    delta = table.row(best).delta
    assert delta is not None
    assert f"<strong>{text.signed(delta.mean)}</strong>" in html
    # its own interval would not hold for a cell picked as the lowest; the sweep page has one that does
    assert f'<span class="muted">{delta.n} pairs</span>' in html
    assert text.interval(delta.low, delta.high) not in html
    spark = re.search(r'<svg class="spark"[^>]*aria-label="Delta by Routing heads H: ([^"]+)"', html)
    assert spark
    assert "no result yet" in html
    assert re.search(r"1 failed · \S+ s to go", html)


def test_a_done_sweep_without_a_mean_says_so(own_store: Store) -> None:
    with own_store.write() as session:
        states = {(1, 1, 1e-3, seed): "diverged" for seed in (20, 21)}
        build_sweep(session, "lost", heads=(1,), kv_heads=(1,), seeds=(20, 21), states=states, curves=False)
    with own_store.read() as session:
        html = sweeps_html(Lines({}).page(session, asked({"q": "lost"})))
    assert "no cell has a mean" in html
    assert "no result yet" not in html


def test_the_address_says_everything(client: TestClient) -> None:
    answer = client.get("/?state=done")
    assert (answer.status_code, answer.headers["location"]) == (307, "?q=&state=done&owner=&sort=-submitted")
    html = client.get("/?q=&state=done&owner=&sort=name").text
    assert (
        'aria-sort="ascending"><a class="sort" href="?q=&amp;state=done&amp;owner=&amp;sort=-name">' in html
    )
    assert "head-count</a>" in html
    assert "in-flight</a>" not in html
    assert "1 of 3 sweeps" in html
    none = client.get("/?q=no+such&state=&owner=&sort=name").text
    assert "No sweep is like that" in none
    assert client.get("/?stat=done").status_code == 422
