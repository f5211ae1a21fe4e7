"""Folders that tasks are read from, by their content. Imports without lm-eval."""

import hashlib
from pathlib import Path

from headcount.trainer.errors import UserError


def tasks_digest(folder: Path) -> str:
    """SHA-256 over the names and contents of all files in a folder with tasks of one's own.

    Raises `UserError` where it is no folder, or has no task's YAML file.
    """
    files = _files(folder, "the YAML files of tasks")
    if not any(path.suffix in (".yaml", ".yml") for path in files):
        raise UserError(f"{folder}: no YAML file of a task in it")
    return _digest(folder, files)


def task_data_digest(folder: Path) -> str:
    """The same of a folder with the data sets of lm-eval's tasks, each as `OWNER/NAME`.

    Raises `UserError` where it is no folder, or has no file so deep in it.
    """
    files = _files(folder, "data sets by the names they have on the Hugging Face hub, as OWNER/NAME/...")
    if not any(len(path.relative_to(folder).parts) > 2 for path in files):
        raise UserError(f"{folder}: no data set in it; expected each in a folder OWNER/NAME, as on the hub")
    return _digest(folder, files)


def _files(folder: Path, what: str) -> list[Path]:
    """Every file beneath `folder`, but hidden ones and caches."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; expected one with {what}")
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and not any(part.startswith((".", "__")) for part in path.relative_to(folder).parts)
    )


def _digest(folder: Path, files: list[Path]) -> str:
    """SHA-256 over the files' names and contents, in hexadecimal."""
    digest = hashlib.sha256()
    for path in files:
        with open(path, "rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()
