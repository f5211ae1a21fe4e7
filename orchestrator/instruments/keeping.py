"""Keeps what a command measured of a stored job where its instrument would have kept it."""

import json
from collections.abc import Mapping
from typing import Any

from headcount.orchestrator.artifacts.address import Artifacts
from headcount.orchestrator.instruments.models import job_named
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import open_store
from headcount.orchestrator.store.instruments import Measured, store_measured
from headcount.orchestrator.store.transitions import job_folder
from headcount.sweeps.planning.instruments import instrument_id
from headcount.trainer.job_files.files import whole_file


def keep(
    name: str,
    settings: Settings,
    kind: str,
    asked: Mapping[str, Any],
    measurements: Mapping[str, float | None],
    content: Any,
    file: str,
) -> str | None:
    """Store the figures of the job that `name` means, and `content` as its JSON `file`; what was done, in
    words. None where `name` is a file, which the store knows nothing of.

    asked: the instrument's settings, by dotted names.
    """
    parent_id = job_named(name, settings)
    if parent_id is None:
        return None
    key = f"{job_folder(instrument_id(kind, parent_id, asked))}/{file}"
    path = settings.artifacts / key
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as written:
        written.write(json.dumps(content).encode())
    if settings.artifacts_url is not None:
        Artifacts(settings.artifacts_url).upload(path, key)
    measured = Measured(kind, asked, measurements, key, written.hash.hexdigest())
    with open_store(settings).write() as session:
        stored = store_measured(session, parent_id, measured)
    if stored is None:
        return "not stored: a slot measures the same now"
    return f"stored as {kind} {stored[:12]} of job {parent_id[:12]}"
