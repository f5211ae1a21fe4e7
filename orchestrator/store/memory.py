"""What jobs took of a card's memory, by what decides it: finished jobs tell it, for those to come."""

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.orchestrator.store.models import Job, Measurement

RESERVED = "peak_reserved_bytes"
"""The measurement: what the job's allocator held of its card at most, its cache and graphs included."""

_DECIDING = ("data.context", "train.batch_tokens", "train.precision", "train.optimizer")


def memory_kind(config: Mapping[str, Any]) -> str:
    """Jobs that share it take the same memory: they differ in seed, text, rates and length only."""
    decides = {k: v for k, v in config.items() if k.startswith("model.") or k in _DECIDING}
    return json.dumps(decides, sort_keys=True)


def recorded_peaks(session: Session) -> dict[str, float]:
    """Bytes of a card that the greediest finished job of each kind took."""
    query = (
        select(Job.config, Measurement.value)
        .join(Measurement, Measurement.job_id == Job.id)
        .where(Measurement.name == RESERVED, Measurement.value.is_not(None), Job.state == "finished")
    )
    peaks: dict[str, float] = {}
    for config, value in session.execute(query):
        kind = memory_kind(config)
        peaks[kind] = max(value, peaks.get(kind, 0.0))
    return peaks
