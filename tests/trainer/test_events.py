import json

import pytest

from headcount.trainer.events import (
    Artifact,
    Checkpoint,
    Evaluation,
    Event,
    Progress,
    Result,
    Routing,
    Spike,
    Started,
    from_record,
    to_record,
)


@pytest.mark.parametrize(
    "event",
    [
        Started(0, {"device": "cpu", "threads": 1, "cuda": None}),
        Progress(3, 2.5, 1e-3, 0.7, 1000.0),
        Evaluation(5, 2.25),
        Evaluation(5, 2.25, (2.0, 2.5)),
        Routing(5, (0.0, 0.5), (0, 1)),
        Spike(4, 2, 1.5),
        Checkpoint(5, "step-00000005.pt", "a" * 64),
        Artifact("model", 5, "model.safetensors", "b" * 64),
        Result("finished", 5, 2.25, {"seconds": 1.0}),
        Result("diverged", 3, None, {}),
    ],
)
def test_an_event_survives_json(event: Event) -> None:
    record = to_record(event)
    assert from_record(json.loads(json.dumps(record))) == event
    assert record["kind"] == type(event).__name__.lower()
