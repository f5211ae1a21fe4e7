"""`headcount gc`: what can go, how much it is, and, when asked, its end. Files go first, then their names."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from headcount.orchestrator.artifacts.folder import AnyArtifacts, open_artifacts
from headcount.orchestrator.artifacts.weights import weights_key
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store, leftovers
from headcount.orchestrator.store.transitions import job_folder

KINDS = {
    "checkpoints": "of ended jobs; one that failed or was cancelled begins anew when it is wanted again",
    "models": "of jobs with a result; nothing can be evaluated, probed or converted from them any more",
    "logs": "what ended attempts have printed",
    "jobs": "that no sweep has any more, with their results and files",
    "weights": "that were put there for jobs to start from, and none in the store does",
}
"""What may be collected, and what it is or costs."""

BY_DEFAULT = ("checkpoints", "logs", "jobs", "weights")
"""Without being named: a model is what a finished job is for."""


@dataclass(frozen=True)
class Pile:
    """What could go of one kind."""

    kind: str
    items: tuple[str, ...]
    """Artifact keys, or ids of jobs."""
    size: int
    """Bytes of the files."""


def find_piles(store: Store, settings: Settings, before: datetime) -> list[Pile]:
    """What ended `before` and nothing needs, by kind. Changes nothing."""
    with store.read() as session:
        checkpoints = leftovers.ended_files(session, "checkpoint", before)
        models = leftovers.ended_files(session, "model", before)
        logs = leftovers.ended_logs(session, before)
        jobs = leftovers.unclaimed_jobs(session, before)
        needed = {weights_key(sha256) for sha256 in leftovers.initial_weights(session)}
    artifacts = open_artifacts(settings)
    weights = artifacts.files("weights")
    found = _Files(artifacts.files("jobs") | weights)
    of_jobs = {job_folder(job) for job in jobs}
    items = {"jobs": tuple(jobs)}
    for kind, keys in (("checkpoints", checkpoints), ("models", models), ("logs", logs)):
        items[kind] = tuple(key for key in keys if _job_part(key) not in of_jobs)
    items["weights"] = tuple(
        sorted(key for key in weights.keys() - needed if _is_older(artifacts, key, before))
    )
    return [Pile(kind, items[kind], found.size(kind, items[kind])) for kind in KINDS]


def collect(store: Store, settings: Settings, pile: Pile, before: datetime, by: str) -> int:
    """Delete a pile; how many of its items went. Raises `UserError` where a file cannot be deleted."""
    artifacts = open_artifacts(settings)
    if pile.kind == "weights":
        with store.read() as session:
            needed = {weights_key(sha256) for sha256 in leftovers.initial_weights(session)}
        gone = [key for key in pile.items if key not in needed]
        artifacts.delete(gone)
        return len(gone)
    found = _Files(artifacts.files("jobs"))
    if pile.kind == "jobs":
        with store.write() as session:
            gone = leftovers.forget_jobs(session, pile.items, before, by=by)
        artifacts.delete(found.of("jobs", gone))
        return len(gone)
    artifacts.delete(found.of(pile.kind, pile.items))
    forget: Callable[..., None] = leftovers.forget_logs if pile.kind == "logs" else leftovers.forget_files
    with store.write() as session:
        forget(session, pile.items)
    return len(pile.items)


def _is_older(artifacts: AnyArtifacts, key: str, before: datetime) -> bool:
    """Weights that have just come may be those of a sweep whose jobs are not stored yet."""
    moment = artifacts.changed(key)
    return moment is not None and moment < before


class _Files:
    """What lies under the keys of jobs, listed once: one question each would take minutes at an address."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self._sizes = sizes
        self._by_job: dict[str, list[str]] = defaultdict(list)
        for key in sizes:
            self._by_job[_job_part(key)].append(key)

    def of(self, kind: str, items: Iterable[str]) -> Iterator[str]:
        """The files that go with the items of a pile."""
        for item in items:
            if kind == "jobs":
                yield from self._by_job[job_folder(item)]
            elif kind == "checkpoints":  # those beside it, and those that a lost attempt wrote late
                yield from sorted(key for key in self._by_job[_job_part(item)] if "/checkpoints/" in key)
            elif item in self._sizes:
                yield item

    def size(self, kind: str, items: Iterable[str]) -> int:
        return sum(self._sizes[key] for key in self.of(kind, items))


def _job_part(key: str) -> str:
    """The part of a key that is its job's folder."""
    return "/".join(key.split("/", 3)[:3])
