"""Checkpoints: written whole or not at all, two kept, resumed from bit for bit.

A checkpoint is two files, `step-00000200.pt` and, written after it, `step-00000200.json`, which states whose
it is and the SHA-256 of the first. Neither counts without a matching other.
"""

import json
import logging
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

import torch

from headcount.trainer.config import FIELDS, NUMERICS, JobConfig, effective_fields
from headcount.trainer.errors import UserError
from headcount.trainer.events import Checkpoint
from headcount.trainer.job_files.files import has_hash, unwritable, whole_file

KEPT = 2

FORMAT = 2
"""Of the state; a checkpoint in another one is passed over."""

log = logging.getLogger(__name__)


def identity(config: JobConfig, fingerprint: str) -> dict[str, Any]:
    """What a checkpoint must share with the job that goes on from it.

    Fields at their default are left out, so that a field which the package gains later changes nothing.
    """
    fields = effective_fields(config)
    return {
        **{name: value for name, value in fields.items() if value != FIELDS[name].default},
        "seed": config.seed,
        "data fingerprint": fingerprint,
        "numerics": NUMERICS,
    }


def save(
    folder: Path, step: int, state: dict[str, Any], owner: dict[str, Any], kept: int = KEPT
) -> Checkpoint:
    """Write the checkpoint of `step` and drop all but the newest `kept`.

    Raises `UserError` where it cannot be written; nothing of it is left then, and older ones are.
    """
    weights, statement = folder / f"step-{step:08d}.pt", folder / f"step-{step:08d}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with whole_file(weights) as file:
            torch.save(state, cast(IO[bytes], file))
        digest = file.hash.hexdigest()
        with whole_file(statement) as file:
            stated = {"format": FORMAT, "step": step, "sha256": digest, "owner": owner}
            file.write(json.dumps(stated).encode())
        for old in _statements(folder)[kept:]:
            old.unlink()
            old.with_suffix(".pt").unlink(missing_ok=True)
    except OSError as error:
        with suppress(OSError):  # a folder that was never there has nothing to clear away
            if not statement.exists():
                weights.unlink()
        raise unwritable(f"the checkpoint of step {step}", folder, error) from error
    return Checkpoint(step=step, file=weights.name, sha256=digest)


def load_newest(folder: Path, owner: dict[str, Any]) -> dict[str, Any] | None:
    """The state of the newest whole checkpoint in `folder`, on the CPU; None where there is none.

    One that is torn or damaged is passed over for the one before. Raises `UserError` where the checkpoint is
    of another job.
    """
    _clear_remains(folder)
    for path in _statements(folder):
        try:
            statement = json.loads(path.read_text(encoding="utf-8"))
            weights = path.with_suffix(".pt")
            readable = statement["format"] == FORMAT and has_hash(weights, statement["sha256"])
        except (OSError, ValueError, KeyError, TypeError):
            readable = False
        if not readable:
            log.warning("passing over %s, which is damaged or of another version", path.with_suffix(".pt"))
            path.unlink()
            continue
        _check_owner(path, statement["owner"], owner)
        state: dict[str, Any] = torch.load(weights, map_location="cpu", weights_only=True)
        return state
    return None


def drop_all(folder: Path) -> None:
    """Remove every checkpoint in `folder`."""
    for statement in _statements(folder):
        statement.unlink()
    _clear_remains(folder)


def _clear_remains(folder: Path) -> None:
    """Remove what a writer that was killed left behind."""
    for beside in folder.glob(".step-*"):
        beside.unlink()
    for weights in folder.glob("step-*.pt"):
        if not weights.with_suffix(".json").exists():
            weights.unlink()


def _check_owner(path: Path, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    ours = json.loads(json.dumps(ours))
    for name in sorted(theirs.keys() | ours.keys()):
        if theirs.get(name) != ours.get(name):
            raise UserError(
                f"{path.with_suffix('.pt')} is a checkpoint of another job: its {name} is "
                f"{theirs.get(name, 'the default')}, this job's is {ours.get(name, 'the default')}; "
                "choose another folder"
            )


def _statements(folder: Path) -> list[Path]:
    """Newest first."""
    return sorted(folder.glob("step-*.json"), reverse=True)
