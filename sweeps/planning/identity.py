"""A job's id is its content: the SHA-256 of its canonical configuration and its data's fingerprint."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from headcount.trainer.config import FIELDS, NUMERICS, JobConfig, effective_fields


def job_id(config: JobConfig, fingerprint: str) -> str:
    """64 hexadecimal digits, equal for two jobs that would train to the same numbers."""
    return digest(canonical(config, fingerprint))


def canonical(config: JobConfig, fingerprint: str) -> dict[str, Any]:
    """What decides a training job's numbers, as plain data.

    Fields at their default are left out, so that a later field does not change the ids of earlier jobs;
    defaults are therefore frozen. Only `effective_fields` are in it: equal shapes are equal jobs whatever the
    scale's name, the fingerprint stands for the text, and an `additive` control is one job for every number
    of routing heads.
    """
    content: dict[str, Any] = {
        "kind": "train",
        "numerics": NUMERICS,
        "fingerprint": fingerprint,
        "seed": config.seed,
    }
    for name, value in effective_fields(config).items():
        declared = FIELDS[name]
        if value != declared.default:
            # 1 given for 1.0, and -0.0 for 0.0, are the same number
            content[name] = float(value) + 0.0 if declared.type is float else value
    return content


def digest(content: Mapping[str, Any]) -> str:
    """SHA-256 over the sorted, compact JSON of `content`, in hexadecimal."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
