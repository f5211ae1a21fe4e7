"""Cursors: read as they were written, and any other text refused."""

import pytest
from builders import build_sweep
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.api.problems import Problem
from headcount.api.results import JobCursor
from headcount.api.routes.jobs import _decode, _encode
from headcount.orchestrator.store import Store

KEYS = st.text("0123456789abcdef", min_size=8, max_size=8)
IDS = st.text("0123456789abcdef", min_size=64, max_size=64)


@settings(deadline=None)
@given(st.integers(0, 2**31 - 1), IDS, KEYS)
def test_a_cursor_is_read_as_it_was_written(position: int, job_id: str, key: str) -> None:
    cursor = JobCursor(position, job_id)
    assert _decode(_encode(cursor, key), key) == cursor
    with pytest.raises(Problem):
        _decode(_encode(cursor, key), "another!")


@settings(deadline=None)
@given(st.text(max_size=300))
def test_no_other_text_is_a_cursor(text: str) -> None:
    with pytest.raises(Problem) as caught:
        _decode(text, "00000000")
    assert (caught.value.status, caught.value.code) == (400, "bad_cursor")


def test_all_jobs_come_page_by_page_each_once(store: Store, client: TestClient) -> None:
    with store.write() as session:
        build_sweep(session, "old", heads=(1, 8), kv_heads=(1,), curves=False)
        states = {(8, 2, 1e-3, seed): "failed" for seed in (0, 1)}
        build_sweep(session, "new", heads=(1, 8), kv_heads=(2,), states=states, curves=False)

    def walk(query: str) -> list[dict[str, object]]:
        found, url = [], f"/api/v1/jobs?limit=4{query}"
        while url:
            answer = client.get(url)
            assert answer.status_code == 200, answer.text
            found += answer.json()["items"]
            url = answer.links.get("next", {}).get("url", "")
        return found

    everything = walk("")
    assert [job["sweep"] for job in everything] == ["new"] * 9 + ["old"] * 9
    assert len({job["id"] for job in everything}) == 18
    one = client.get(f"/api/v1/jobs/{everything[0]['id']}").json()
    assert {name: one[name] for name in everything[0] if name != "sweep"} == {
        name: value for name, value in everything[0].items() if name != "sweep"
    }
    assert [job["seed"] for job in walk("&state=failed")] in ([0, 1], [1, 0])
    cursor = client.get("/api/v1/jobs?limit=4").json()["next_cursor"]
    assert client.get(f"/api/v1/jobs?state=failed&cursor={cursor}").json()["code"] == "bad_cursor"
