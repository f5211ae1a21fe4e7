"""Whether instruments looked in one way at all jobs: figures of two ways are no one mean."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.orchestrator.store.models import Job
from headcount.orchestrator.store.wishes import chunks
from headcount.sweeps.planning.instruments import counted_settings

Settings = frozenset[tuple[str, str]]
"""Dotted names, and their values as JSON; without those at their default."""

_TASKS = "evaluate.tasks"
"""Which else were scored changes no score."""


def settings_of(session: Session, job_ids: Collection[str]) -> dict[str, Settings]:
    """The settings of instruments, by their ids."""
    found: dict[str, Settings] = {}
    for chunk in chunks(job_ids):
        for job_id, config in session.connection().execute(
            select(Job.id, Job.config).where(Job.id.in_(chunk))
        ):
            found[job_id] = _settings(config)
    return found


def usual(settings: Iterable[Settings]) -> Settings:
    """Those of most; the first of several."""
    return Counter(settings).most_common(1)[0][0]


def difference_words(settings: Settings, usual: Settings) -> str:
    """How settings differ from the usual ones, such as `evaluate.limit 10`."""
    own, others = dict(settings), dict(usual)
    different = sorted(name for name in own.keys() | others.keys() if own.get(name) != others.get(name))
    return ", ".join(f"{name} {own.get(name, 'at its default')}" for name in different)


def _settings(config: Mapping[str, Any]) -> Settings:
    own = {name: value for name, value in config.items() if name.startswith(("probe.", "evaluate."))}
    return frozenset(
        (name, json.dumps(value)) for name, value in counted_settings(own).items() if name != _TASKS
    )
