"""A job's id is its content: the SHA-256 of its canonical configuration and its data's fingerprint."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from headcount.trainer.config import FIELDS, NUMERICS, JobConfig, fields_of
from headcount.trainer.residuals.registry import stream_fields, stream_reads

_NAMES_ONLY = frozenset({"model.scale", "data.source", "data.text"})
"""Left out of the id: equal shapes are equal jobs, and the fingerprint stands for the text."""


def job_id(config: JobConfig, fingerprint: str) -> str:
    """64 hexadecimal digits, equal for two jobs that would train to the same numbers."""
    return digest(canonical(config, fingerprint))


def canonical(config: JobConfig, fingerprint: str) -> dict[str, Any]:
    """What decides a training job's numbers, as plain data.

    Fields at their default are left out, so that a later field does not change the ids of earlier jobs;
    defaults are therefore frozen. So are fields that the job's residual stream does not read, by which an
    `additive` control is one job for every number of routing heads.
    """
    idle = {f"model.{name}" for name in stream_fields() - stream_reads(config.model.residual)}
    content: dict[str, Any] = {
        "kind": "train",
        "numerics": NUMERICS,
        "fingerprint": fingerprint,
        "seed": config.seed,
    }
    for name, value in fields_of(config).items():
        declared = FIELDS[name]
        if name in _NAMES_ONLY or name in idle or value == declared.default:
            continue
        # 1 given for 1.0, and -0.0 for 0.0, are the same number
        content[name] = float(value) + 0.0 if declared.type is float else value
    return content


def digest(content: Mapping[str, Any]) -> str:
    """SHA-256 over the sorted, compact JSON of `content`, in hexadecimal."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
