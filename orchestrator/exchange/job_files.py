"""The files that go with a sweep's bundle: what figures and tables read beside the store's rows.

Weights are left out, since one model is larger than all of these. The bundle's manifest names them.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headcount.orchestrator.artifacts.folder import AnyArtifacts
from headcount.orchestrator.artifacts.weights import weights_key
from headcount.orchestrator.exchange.rows import Row
from headcount.trainer.errors import UserError

CARRIED = ("curve", "routing", "probe", "evaluate")
"""Kinds of artifacts: the loss of every update, what heads read, every site's and every item's figures."""

FOLDER = "files"
"""Of the bundle; beneath it a file has its key."""

_KEY = re.compile(r"jobs/[0-9a-f]{2}/[0-9a-f]{64}/(attempt-\d+/)?\w[\w.-]{0,99}")

Read = Callable[[str], bytes | None]
"""The content of an artifact by its key; none where it is gone."""


@dataclass(frozen=True)
class LeftOut:
    """Weights that the bundle does not hold."""

    kind: str
    """`model`, `checkpoint`, or `initial`: what jobs start from."""
    key: str
    sha256: str


def fetch(rows: Iterable[Row], read: Read, folder: Path) -> Iterator[Row]:
    """Write the files of artifacts into `folder`; the rows of those that are there and whole."""
    for row in rows:
        content = read(row["key"])
        if content is None or hashlib.sha256(content).hexdigest() != row["sha256"]:
            continue
        place(folder, row["key"]).write_bytes(content)
        yield row


def place(folder: Path, key: str) -> Path:
    """Where the file of that key lies in a folder of ours. Raises `ValueError` for what is no job's file."""
    if not _KEY.fullmatch(key):
        raise ValueError(f"{key[:100]!r} is no file of a job")
    return folder / hashlib.sha256(key.encode()).hexdigest()


def initial_weights(configs: Iterable[dict[str, Any]]) -> list[LeftOut]:
    """What jobs of these configurations start from."""
    found = sorted({config.get("init.weights") or "" for config in configs} - {""})
    return [LeftOut("initial", weights_key(sha256), sha256) for sha256 in found]


def put(folder: Path, rows: Iterable[Row], artifacts: AnyArtifacts) -> None:
    """Put the files of these artifacts where this store keeps its own.

    Raises `UserError` where the disk or the address refuses.
    """
    for row in rows:
        artifacts.write(row["key"], place(folder, row["key"]).read_bytes())


def check_content(folder: Path, row: Row) -> None:
    """Raise `UserError` where the bundle's file is missing or another one than its row states."""
    try:
        file = place(folder, row["key"])
    except ValueError as error:
        raise UserError(f"its tables name a file that is none: {error}") from error
    if not file.exists() or hashlib.sha256(file.read_bytes()).hexdigest() != row["sha256"]:
        raise UserError(f"{FOLDER}/{row['key']} is not what the bundle states; export the sweep again")
