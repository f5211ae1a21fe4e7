"""Live updates: nothing missed, nothing twice, and no stream in the way of a stop."""

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from builders import START, build_sweep
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import select
from sqlalchemy.event import listens_for, remove

from headcount.api.results import events_after, newest_event
from headcount.api.routes import events
from headcount.api.service import GRACE_SECONDS
from headcount.orchestrator.store import Store, open_store
from headcount.orchestrator.store.journal import announce_sweep, record
from headcount.orchestrator.store.models import Event, Sweep


@pytest.fixture
def filled(store: Store) -> Store:
    with store.write() as session:
        build_sweep(session, "one", heads=(1, 4, 8), kv_heads=(1,), curves=False)
        build_sweep(session, "two", heads=(1, 4, 8), kv_heads=(2,), curves=False)
    return store


def blocks(text: str) -> list[dict[str, str]]:
    """The events of a stream, as their fields."""
    return [
        dict(line.split(": ", 1) for line in block.splitlines())
        for block in text.split("\n\n")
        if block.startswith("event:")
    ]


def test_a_client_resumes_where_it_was(filled: Store, client: TestClient) -> None:
    with filled.read() as session:
        stored = events_after(session, 0)
    middle = stored[5].id
    answer = client.get("/api/v1/events?follow=false", headers={"Last-Event-ID": str(middle)})
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    seen = blocks(answer.text)
    assert [int(e["id"]) for e in seen] == [e.id for e in stored[6:]]
    assert [e["event"] for e in seen] == [e.kind for e in stored[6:]]
    assert json.loads(seen[0]["data"]) == {
        "id": stored[6].id,
        "kind": "settled",
        "sweep": "one",
        "job_id": stored[6].job_id,
        "detail": {"state": "finished"},
        "created": stored[6].created.isoformat(),
    }


def test_a_new_client_starts_at_the_end(filled: Store, client: TestClient) -> None:
    assert blocks(client.get("/api/v1/events?follow=false").text) == []


def test_a_follower_misses_nothing_beside_slow_writers(filled: Store, client: TestClient) -> None:
    """Ids grow in the order of commits, so that none appears behind the last one that was seen."""
    with filled.read() as session:
        last = newest_event(session)
        sweep = session.scalars(select(Sweep.id)).first() or 0

    def write(writer: int) -> None:
        for number in range(6):
            with filled.write() as session:
                announce_sweep(session, sweep, "paused", of=[writer, number])
                time.sleep(0.004 * (writer + 1))  # its id is taken, and others would like to commit

    seen: list[list[int]] = []
    with ThreadPoolExecutor(4) as writers:
        writing = [writers.submit(write, writer) for writer in range(4)]
        while len(seen) < 24 and not any(done.done() and done.exception() for done in writing):
            headers = {"Last-Event-ID": str(last)}
            for event in blocks(client.get("/api/v1/events?follow=false", headers=headers).text):
                last = int(event["id"])
                seen.append(json.loads(event["data"])["detail"]["of"])
            all_done = all(done.done() for done in writing)
            assert not (all_done and len(seen) < 24) or last < _newest(filled)
    assert sorted(seen) == [[writer, number] for writer in range(4) for number in range(6)]


def _newest(store: Store) -> int:
    with store.read() as session:
        return newest_event(session)


def test_changes_of_tokens_are_not_told(filled: Store, client: TestClient) -> None:
    with filled.write() as session:
        record(session, "token_created", token="ada")
        announce_sweep(session, session.scalars(select(Sweep.id)).first() or 0, "paused")
        record(session, "token_revoked", token="ada")
    answer = client.get("/api/v1/events?follow=false", headers={"Last-Event-ID": "0"})
    kinds = [e["event"] for e in blocks(answer.text)]
    assert kinds[-1] == "paused"
    assert not [kind for kind in kinds if kind.startswith("token")]


def test_a_long_history_is_sent_whole(
    filled: Store, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "PAGE", 5)
    with filled.read() as session:
        expected = [str(e.id) for e in events_after(session, 0, sweep="two")]
    answer = client.get("/api/v1/events?follow=false&sweep=two", headers={"Last-Event-ID": "0"})
    assert [e["id"] for e in blocks(answer.text)] == expected
    assert len(expected) == 13


def test_a_stream_that_cannot_begin_is_a_problem(filled: Store, app: FastAPI, client: TestClient) -> None:
    assert client.get("/api/v1/events?sweep=three").status_code == 404
    assert client.get("/api/v1/events", headers={"Last-Event-ID": "x"}).status_code == 422
    app.state.streams.open = events.MAX_STREAMS
    answer = client.get("/api/v1/events?follow=false")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")


FOLLOWERS = 12


def test_followers_at_the_same_place_are_one_question_to_the_store(
    filled: Store, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "POLL_SECONDS", 0.1)
    asked: list[str] = []
    open_streams = threading.Barrier(FOLLOWERS + 1)

    def follow(url: str) -> str:
        with httpx2.stream("GET", f"{url}/api/v1/events?sweep=one", timeout=20) as answer:
            lines = answer.iter_lines()
            next(lines)
            open_streams.wait(20)
            return next(line for line in lines if line.startswith("id:"))

    with _served(app) as url, ThreadPoolExecutor(FOLLOWERS) as pool:
        followers = [pool.submit(follow, url) for _ in range(FOLLOWERS)]
        open_streams.wait(20)
        time.sleep(0.5)  # all have looked by themselves once

        @listens_for(filled.engine, "before_cursor_execute")
        def note(connection: Any, cursor: Any, statement: str, *others: Any) -> None:
            if "FROM event" in statement:
                asked.append(statement)

        begun = time.monotonic()
        time.sleep(0.5)
        polls = (time.monotonic() - begun) / events.POLL_SECONDS
        remove(filled.engine, "before_cursor_execute", note)
        assert 1 <= len(asked) <= polls + 1
        with filled.write() as session:
            sweep = session.scalars(select(Sweep.id).where(Sweep.name == "one")).one()
            announce_sweep(session, sweep, "paused")
        assert {follower.result(20) for follower in followers} == {f"id: {_newest(filled)}"}


@contextmanager
def _served(app: FastAPI) -> Iterator[str]:
    """The address of the application, which a thread of this process serves."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    app.state.streams.stopping = True
    server.should_exit = True
    thread.join()


SERVICE = """
import sys
from pathlib import Path
from headcount.api.app import create_app
from headcount.api.service import Reach, serve
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import open_store

url, home = sys.argv[1], Path(sys.argv[2])
store = open_store(url)
settings = Settings(home, url, home)
serve(
    lambda access: create_app(store, settings, access=access),
    Reach(),
    port=0,
    announce=lambda url: print(url, flush=True),
)
"""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[tuple[str, Store, subprocess.Popen[str]]]:
    """The service as its own process on a free port, and its store."""
    url = f"sqlite:///{tmp_path / 'headcount.db'}"
    store = open_store(url)
    with store.write() as session:
        build_sweep(session, heads=(1, 4, 8), kv_heads=(1,), curves=False)
    process = subprocess.Popen(
        [sys.executable, "-c", SERVICE, url, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    yield process.stdout.readline().strip(), store, process
    process.kill()
    process.wait()
    process.stdout.close()
    process.stderr.close()
    store.close()


def test_events_arrive_as_they_are_written_and_a_stop_does_not_wait(service: Any) -> None:
    url, store, process = service
    with httpx2.stream("GET", f"{url}api/v1/events", timeout=20) as answer:
        lines = answer.iter_lines()
        assert next(lines) == ": the stream is open"
        with store.read() as session:
            before = newest_event(session)
        with store.write() as session:
            session.add(Event(sweep_id=1, kind="settled", detail={"state": "failed"}, created=START))
        received = [line for line in (next(lines) for _ in range(6)) if line]
        assert f"id: {before + 1}" in received
        assert "event: settled" in received
        begun = time.monotonic()
        process.terminate()
        assert list(lines)[-1:] in ([], [""])  # the stream ends, it is not cut
        assert process.wait(timeout=20) in (0, -15)
        assert time.monotonic() - begun < GRACE_SECONDS
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(url.rstrip("/").rpartition(":")[2]))) != 0


def test_a_client_that_leaves_is_no_fault(service: Any) -> None:
    """Whatever the moment, with events on their way."""
    url, store, process = service
    with store.write() as session:
        for _ in range(2000):
            session.add(Event(sweep_id=1, kind="settled", detail={"pad": "x" * 200}, created=START))
    for lines_read in range(40):
        with httpx2.stream("GET", f"{url}api/v1/events", headers={"Last-Event-ID": "0"}) as answer:
            lines = answer.iter_lines()
            assert next(lines) == ": the stream is open"
            for _ in range(lines_read):
                next(lines)
    assert httpx2.get(f"{url}healthz").status_code == 200
    process.terminate()
    assert process.wait(timeout=20) in (0, -15)
    assert process.stderr.read() == ""
