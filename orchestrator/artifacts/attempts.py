"""What an attempt goes on from. Each writes in a folder of its own, `attempt-N`, beneath its job's.

An attempt that is thought lost may write on. It replaces nothing that a later one reads: a later one first
takes the checkpoint into its own folder, where no other writes, and whoever comes after it prefers what lies
there, however far the lost one has come meanwhile.
"""

import json
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from headcount.trainer.job_files.files import has_hash, unwritable

_ATTEMPT = re.compile(r"(?:^|/)attempt-(\d+)/")
_STATEMENT = re.compile(r"(?:^|/)checkpoints/step-(\d+)\.json$")


def attempt_of(key: str) -> int:
    """Whose file it is; 0 for one that lies in the job's folder itself."""
    found = _ATTEMPT.search(key)
    return int(found[1]) if found else 0


def statements(keys: Iterable[str]) -> list[str]:
    """Those of checkpoints among the files of one job: the latest attempt's first, and of one the newest."""
    found = [(attempt_of(key), int(step[1]), key) for key in keys if (step := _STATEMENT.search(key))]
    return [key for *_, key in sorted(found, reverse=True)]


def statements_in(job: Path) -> list[str]:
    """`statements` of a job's folder on this disk, relative to it."""
    return statements(str(file.relative_to(job)) for file in job.rglob("step-*.json"))


def take_over(job: Path, number: int) -> None:
    """Bring the checkpoint that attempt `number` goes on from into its folder; clear away those before it.

    Raises `UserError` where the disk refuses.
    """
    own = job / f"attempt-{number}"
    try:
        for statement in statements_in(job):
            if take(job / statement, own):
                break
    except OSError as error:
        raise unwritable("what the job goes on from", own, error) from error
    clear_before(job, number)


def take(statement: Path, own: Path) -> bool:
    """Bring a checkpoint and its attempt's other files into the folder `own`; whether it is whole."""
    source, weights = statement.parent.parent, statement.with_suffix(".pt")
    try:
        if not has_hash(weights, json.loads(statement.read_bytes())["sha256"]):
            return False
        if source == own:
            return True
        older = [file for file in statement.parent.glob("step-*") if file.stem <= statement.stem]
        beside = [file for file in source.glob("[!.]*") if file.is_file() and file.suffix != ".log"]
        for file in sorted([*beside, *older], key=lambda file: file.suffix == ".json"):
            link(file, own / file.relative_to(source))
    except (FileNotFoundError, IsADirectoryError, ValueError, KeyError, TypeError):
        return False  # damaged, or its writer is alive and has just dropped it
    return True


def link(file: Path, target: Path) -> None:
    """The same file under another name; a copy where the disk has no links."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(file, target)
    except OSError:
        shutil.copyfile(file, target)


def clear_before(job: Path, number: int) -> None:
    """Remove what attempts before `number` have left on this disk, but for what they printed."""
    for folder in job.glob("attempt-*/"):
        if attempt_of(f"{folder.name}/") < number:
            shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(job / "checkpoints", ignore_errors=True)  # of versions without folders by attempt
