"""`headcount gc`: what can go, how much it is, and, when asked, its end. Files go first, then their names."""

import shutil
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store, leftovers
from headcount.orchestrator.store.transitions import job_folder
from headcount.trainer.errors import UserError

KINDS = {
    "checkpoints": "of ended jobs; one that failed or was cancelled begins anew when it is wanted again",
    "models": "of jobs with a result; nothing can be evaluated, probed or converted from them any more",
    "logs": "what ended attempts have printed",
    "jobs": "that no sweep has any more, with their results and files",
}
"""What may be collected, and what it is or costs."""

BY_DEFAULT = ("checkpoints", "logs", "jobs")
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
    folder = settings.artifacts
    of_jobs = tuple(f"{job_folder(job)}/" for job in jobs)
    piles = []
    for kind, keys in (("checkpoints", checkpoints), ("models", models), ("logs", logs)):
        own = [key for key in keys if not key.startswith(of_jobs)]
        files = (path for key in own for path in _files_of(kind, folder / key))
        piles.append(Pile(kind, tuple(own), sum(map(_size, files))))
    piles.append(Pile("jobs", tuple(jobs), sum(_size(folder / job_folder(job)) for job in jobs)))
    return piles


def collect(store: Store, settings: Settings, pile: Pile, before: datetime, by: str) -> int:
    """Delete a pile; how many of its items went. Raises `UserError` where a file cannot be deleted."""
    if pile.kind == "jobs":
        with store.write() as session:
            gone = leftovers.forget_jobs(session, pile.items, before, by=by)
        _delete(settings.artifacts / job_folder(job) for job in gone)
        return len(gone)
    paths = (p for key in pile.items for p in _files_of(pile.kind, settings.artifacts / key))
    _delete(paths)
    forget: Callable[..., None] = leftovers.forget_logs if pile.kind == "logs" else leftovers.forget_files
    with store.write() as session:
        forget(session, pile.items)
    return len(pile.items)


def _files_of(kind: str, path: Path) -> Collection[Path]:
    """A checkpoint's whole folder goes: an older one and its statement lie beside the one that is named."""
    return (path.parent,) if kind == "checkpoints" and path.parent.name == "checkpoints" else (path,)


def _size(path: Path) -> int:
    with suppress(OSError):
        if path.is_dir():
            return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        return path.stat().st_size
    return 0


def _delete(paths: Iterable[Path]) -> None:
    for path in paths:
        try:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
            _drop_empty(path.parent)
        except OSError as error:
            raise UserError(f"cannot delete {path}: {error.strerror}") from error


def _drop_empty(folder: Path) -> None:
    """A job's folder goes with its last file."""
    with suppress(OSError):
        folder.rmdir()
