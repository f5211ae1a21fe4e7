"""An end of the service while it is used: over within 10 s, and nothing that was answered is lost."""

import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest
from homes import Home, write_text
from served import serve

from headcount.api.results import events_after
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store, open_store

STOP_SECONDS = 10
"""What `docker stop` gives a container."""

SWEEP = """
name: {name}
job:
  model: {{scale: nano, residual: mhar}}
  data: {{source: prose, context: 64}}
  train: {{steps: 10, batch_tokens: 256}}
axes:
  model.routing_heads: [1, 2]
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_end_amid_submissions_and_a_live_stream_loses_nothing(number: int, tmp_path: Path) -> None:
    home = Home(tmp_path / "home", {})
    write_text(tmp_path / "text")
    assert home.headcount("data", "prepare", "prose", str(tmp_path / "text")).returncode == 0
    process, url = serve(home.folder, "--rate", "0")
    seen: list[int] = []
    listener = threading.Thread(target=_listen, args=(url, seen))
    listener.start()
    answered: list[str] = []
    submitter = threading.Thread(target=_submit, args=(url, answered))
    submitter.start()
    while len(answered) < 3 or len(seen) < 3:
        time.sleep(0.01)
    began = time.monotonic()
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert time.monotonic() - began < STOP_SECONDS
    assert process.returncode in (0, -number)
    assert errors == ""
    for thread in (listener, submitter):
        thread.join(10)

    store = open_store(Settings(home.folder, f"sqlite:///{home.folder}/headcount.db", tmp_path))
    stored = _submitted(store)
    store.close()
    assert set(answered) <= set(stored.values())
    assert seen == sorted(stored)[: len(seen)]
    again, url = serve(home.folder, "--rate", "0")
    with httpx2.stream(
        "GET", f"{url}api/v1/events?follow=false", headers={"Last-Event-ID": str(seen[-1])}
    ) as rest:
        seen += _ids(rest)
    again.terminate()
    again.communicate(timeout=20)
    assert seen == sorted(stored)


def _listen(url: str, seen: list[int]) -> None:
    """Note every event until the stream ends, or is cut where the service is killed."""
    headers = {"Last-Event-ID": "0"}
    with (
        suppress(httpx2.TransportError),
        httpx2.stream("GET", f"{url}api/v1/events", headers=headers, timeout=30) as answer,
    ):
        for line in answer.iter_lines():
            if line.startswith("id: "):
                seen.append(int(line.removeprefix("id: ")))


def _submit(url: str, answered: list[str]) -> None:
    """Submit sweeps until nobody answers any more."""
    headers = {"Content-Type": "application/yaml"}
    for number in range(10_000):
        name = f"sweep-{number}"
        try:
            answer = httpx2.post(
                f"{url}api/v1/sweeps", content=SWEEP.format(name=name), headers=headers, timeout=30
            )
        except httpx2.TransportError:
            return
        assert answer.status_code in (200, 201), answer.text
        answered.append(name)


def _ids(answer: httpx2.Response) -> list[int]:
    return [int(line.removeprefix("id: ")) for line in answer.iter_lines() if line.startswith("id: ")]


def _submitted(store: Store) -> dict[int, str]:
    """The events of the store that streams show, by their ids, with the names of their sweeps."""
    with store.read() as session:
        events = events_after(session, 0, limit=100_000)
    return {event.id: event.sweep for event in events if event.sweep is not None}
