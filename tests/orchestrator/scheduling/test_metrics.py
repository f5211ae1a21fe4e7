"""The scheduler's figures and log, as programs read them."""

import json
import logging
import sys
import urllib.request

import pytest
from plans import end, finish, start_next, submit_text
from prometheus_client.parser import text_string_to_metric_families

from headcount.orchestrator.scheduling import waits as waits_module
from headcount.orchestrator.scheduling.logs import JsonLines
from headcount.orchestrator.scheduling.metrics import serve_metrics
from headcount.orchestrator.scheduling.waits import Waits
from headcount.orchestrator.store import Store
from headcount.trainer.errors import UserError


def _asked(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        families = text_string_to_metric_families(answer.read().decode())
    return {
        sample.name + "".join(f" {value}" for value in sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


def test_prometheus_is_told_the_queue_the_causes_the_events_and_the_waits(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(waits_module, "monotonic", lambda: clock[0])
    waits = Waits()
    submit_text(store)
    with store.write() as session:
        finish(session, start_next(session))
        end(session, start_next(session), "slot_lost")
        start_next(session)
    clock[0] = 101.0
    waits.dispatched(free_since=100.97)
    waits.nothing_queued()
    clock[0] = 110.0
    waits.dispatched(free_since=50.0)
    told = _asked(serve_metrics(0, store, waits))
    assert {state: told[f"headcount_jobs {state}"] for state in ("queued", "running", "finished")} == {
        "queued": 4,
        "running": 1,
        "finished": 1,
    }
    assert (told["headcount_attempts_total slot_lost"], told["headcount_attempts_total finished"]) == (1, 1)
    assert told["headcount_attempts_total preempted"] == 0
    assert told["headcount_events_total"] > 5
    assert told["headcount_dispatch_seconds_count"] == 2
    assert told["headcount_dispatch_seconds_sum"] == pytest.approx(9.03)
    bounds = {bound: told[f"headcount_dispatch_seconds_bucket {bound}"] for bound in ("0.025", "0.05", "5.0")}
    assert bounds == {"0.025": 0, "0.05": 1, "5.0": 1}


def test_a_port_in_use_is_refused(store: Store) -> None:
    port = serve_metrics(0, store, Waits())
    with pytest.raises(UserError, match=f"--metrics-port {port}: Address already in use; choose another"):
        serve_metrics(port, store, Waits())


def test_a_log_line_is_one_object_with_what_it_is_about() -> None:
    try:
        raise ValueError("no\ntext")
    except ValueError:
        error = sys.exc_info()
    record = logging.makeLogRecord(
        {
            "name": "a.b",
            "levelno": 30,
            "levelname": "WARNING",
            "msg": "%s of %s",
            "args": ("lost", "ä"),
            "created": 0.5,
            "exc_info": error,
            "job": "ab",
            "attempt": 2,
        }
    )
    line = JsonLines().format(record)
    assert "\n" not in line
    told = json.loads(line)
    assert told.pop("exception").endswith("ValueError: no\ntext")
    assert told == {
        "time": "1970-01-01T00:00:00.500+00:00",
        "level": "warning",
        "logger": "a.b",
        "message": "lost of ä",
        "job": "ab",
        "attempt": 2,
    }
