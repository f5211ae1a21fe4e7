"""What a slot sends of an event, and the store keeps: the names are a contract."""

import json
from typing import Any

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
    to_record,
)


@pytest.mark.parametrize(
    ("event", "record"),
    [
        (
            Started(0, {"device": "cpu", "cuda": None}),
            {"kind": "started", "step": 0, "environment": {"device": "cpu", "cuda": None}},
        ),
        (
            Progress(3, 2.5, 1e-3, 0.7, 1000.0),
            {
                "kind": "progress",
                "step": 3,
                "loss": 2.5,
                "learning_rate": 1e-3,
                "gradient_norm": 0.7,
                "tokens_per_second": 1000.0,
            },
        ),
        (
            Evaluation(5, 2.25, (2.0, 2.5)),
            {"kind": "evaluation", "step": 5, "loss": 2.25, "window_losses": [2.0, 2.5]},
        ),
        (
            Routing(5, (0.0, 0.5), (0, 1)),
            {"kind": "routing", "step": 5, "entropy": [0.0, 0.5], "top_source": [0, 1]},
        ),
        (Spike(4, 2, 1.5), {"kind": "spike", "step": 4, "steps": 2, "highest": 1.5}),
        (
            Checkpoint(5, "step-00000005.pt", "a1"),
            {"kind": "checkpoint", "step": 5, "file": "step-00000005.pt", "sha256": "a1"},
        ),
        (
            Artifact("model", 5, "model.safetensors", "b2"),
            {"kind": "artifact", "purpose": "model", "step": 5, "file": "model.safetensors", "sha256": "b2"},
        ),
        (
            Result("diverged", 3, None, {"seconds": 1.0}),
            {
                "kind": "result",
                "outcome": "diverged",
                "step": 3,
                "tail_mean": None,
                "measurements": {"seconds": 1.0},
            },
        ),
    ],
)
def test_an_event_as_json(event: Event, record: dict[str, Any]) -> None:
    assert json.loads(json.dumps(to_record(event))) == record
