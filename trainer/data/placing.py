"""A data set written beside its place, then moved there whole."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headcount.trainer.data.files import sync
from headcount.trainer.data.manifest import (
    MANIFEST_FILE,
    Manifest,
    dataset_folder,
    is_complete,
    read_manifest,
)

_ABANDONED_SECONDS = 24 * 3600
"""From when a scratch folder is that of a process that was killed: writing one takes minutes."""


@contextmanager
def scratch_folder(home: Path) -> Iterator[Path]:
    """A folder on the disk of the data sets, gone at the end unless it was placed."""
    data = home / "data"
    data.mkdir(parents=True, exist_ok=True)
    for left in data.glob(".preparing-*"):
        with suppress(FileNotFoundError):  # its process has just ended
            if time.time() - left.stat().st_mtime > _ABANDONED_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix=".preparing-", dir=data))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def place(scratch: Path, manifest: Manifest, home: Path) -> Manifest:
    """Make `scratch`, which holds the shards, the data set's folder; one that is there whole is kept.

    Returns the manifest of the data set that is there then.
    """
    (scratch / MANIFEST_FILE).write_text(manifest.to_json(), encoding="utf-8")
    folder = dataset_folder(manifest.fingerprint, home)
    if is_complete(folder):
        return read_manifest(folder)
    shutil.rmtree(folder, ignore_errors=True)  # damaged
    sync(*scratch.iterdir())
    try:
        scratch.rename(folder)
    except OSError:
        if not is_complete(folder):  # else another process was first
            raise
    sync(folder.parent)
    return read_manifest(folder)
