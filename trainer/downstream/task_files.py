"""A folder with tasks of one's own, by its content. Imports without lm-eval."""

import hashlib
from pathlib import Path

from headcount.trainer.errors import UserError


def tasks_digest(folder: Path) -> str:
    """SHA-256 over the names and contents of all files beneath `folder`, in hexadecimal.

    Raises `UserError` where it is no folder, or has no task's YAML file.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; expected one with the YAML files of tasks")
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and not any(part.startswith((".", "__")) for part in path.relative_to(folder).parts)
    )
    if not any(path.suffix in (".yaml", ".yml") for path in files):
        raise UserError(f"{folder}: no YAML file of a task in it")
    digest = hashlib.sha256()
    for path in files:
        with open(path, "rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()
