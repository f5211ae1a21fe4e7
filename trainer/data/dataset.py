"""A prepared data set: its manifest, and its windows of tokens, read from memory-mapped files."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt

from headcount.trainer.data.order import Indices, evenly_spaced, windows_of_step
from headcount.trainer.errors import UserError

TRAIN_FILE, VALIDATION_FILE, MANIFEST_FILE = "train.bin", "validation.bin", "manifest.json"

TOKEN_TYPE = np.dtype(np.uint8)
"""One byte a token: the vocabulary is the 256 bytes."""

Windows = npt.NDArray[np.int64]
"""[windows, context + 1]: the targets are the same windows, one token on."""


@dataclass(frozen=True)
class Manifest:
    """What a data set is. The fingerprint is of its tokens alone: the same text is the same data set."""

    fingerprint: str
    name: str
    vocab_size: int
    train_tokens: int
    validation_tokens: int
    documents: int
    """After exact duplicates and empty files were dropped."""
    bytes: int
    """Of those documents."""

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Manifest":
        """Raises ValueError unless `text` holds exactly a manifest's fields."""
        values = json.loads(text)
        if not isinstance(values, dict) or values.keys() != {f.name for f in fields(cls)}:
            raise ValueError("not a manifest")
        return cls(**values)


class Dataset:
    """The tokens of one manifest. Cheap to open; pages are read when a window is."""

    def __init__(self, manifest: Manifest, folder: Path) -> None:
        self.manifest = manifest
        self._train = np.memmap(folder / TRAIN_FILE, dtype=TOKEN_TYPE, mode="r")
        self._validation = np.memmap(folder / VALIDATION_FILE, dtype=TOKEN_TYPE, mode="r")

    def train_windows(self, context: int) -> int:
        """How many windows an epoch has. They lie end to end; the targets reach one token into the next."""
        return (self.manifest.train_tokens - 1) // context

    def batch(self, seed: int, step: int, windows: int, context: int) -> Windows:
        """The windows of update `step` (from 0), the same for every model trained at `seed`."""
        chosen = windows_of_step(self.manifest.fingerprint, seed, step, windows, self.train_windows(context))
        return _cut(self._train, chosen, context)

    def validation(self, windows: int, context: int) -> Windows:
        """The fixed validation windows, spread over the validation text; all there are where fewer."""
        available = (self.manifest.validation_tokens - 1) // context
        return _cut(self._validation, evenly_spaced(windows, available), context)


def open_dataset(fingerprint: str, home: Path) -> Dataset:
    """The data set of that fingerprint under the Headcount home.

    Raises `UserError` where it is missing or where its files are not those of its manifest.
    """
    folder = dataset_folder(fingerprint, home)
    return Dataset(read_manifest(folder), folder)


def dataset_folder(fingerprint: str, home: Path) -> Path:
    return home / "data" / fingerprint


def read_manifest(folder: Path) -> Manifest:
    """The manifest in `folder`. Raises `UserError` where it or the tokens it states are missing."""
    try:
        manifest = Manifest.from_json((folder / MANIFEST_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"no data set in {folder}; prepare it on this machine") from error
    if manifest.fingerprint != folder.name:
        raise UserError(f"{folder} holds the data set {manifest.fingerprint}; prepare it again")
    for name, tokens in ((TRAIN_FILE, manifest.train_tokens), (VALIDATION_FILE, manifest.validation_tokens)):
        file = folder / name
        held = file.stat().st_size if file.is_file() else 0
        if held != tokens * TOKEN_TYPE.itemsize:
            raise UserError(f"{file} has {held} bytes where its manifest states {tokens}; prepare it again")
    return manifest


def _cut(tokens: npt.NDArray[np.uint8], indices: Indices, context: int) -> Windows:
    spans = indices[:, None] * context + np.arange(context + 1)
    windows: Windows = tokens[spans].astype(np.int64)
    return windows
