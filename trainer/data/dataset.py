"""A prepared data set: its windows of tokens, read from memory-mapped shards."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np
import numpy.typing as npt

from headcount.trainer.data.manifest import Manifest, dataset_folder, read_manifest
from headcount.trainer.data.order import Indices, evenly_spaced, windows_of_step
from headcount.trainer.data.shards import Shard, map_shard, unknown_token

Windows = npt.NDArray[np.int64]
"""[windows, context + 1]: the targets are the same windows, one token on."""


class Dataset:
    """The tokens of one manifest. Cheap to open; pages are read when a window is.

    Reading windows raises `UserError` naming the shard where an id is beyond the vocabulary.
    """

    def __init__(self, manifest: Manifest, folder: Path) -> None:
        self.manifest, self.folder = manifest, folder
        self._train = _Side(manifest, manifest.train, folder)
        self._validation = _Side(manifest, manifest.validation, folder)

    def train_windows(self, context: int) -> int:
        """How many windows an epoch has. They lie end to end; the targets reach one token into the next."""
        return (self.manifest.train_tokens - 1) // context

    def batch(self, seed: int, step: int, windows: int, context: int) -> Windows:
        """The windows of update `step` (from 0), the same for every model trained at `seed`."""
        chosen = windows_of_step(self.manifest.fingerprint, seed, step, windows, self.train_windows(context))
        return self._train.windows(chosen, context)

    def validation(self, windows: int, context: int) -> Windows:
        """The fixed validation windows, spread over the validation text; all there are where fewer."""
        available = (self.manifest.validation_tokens - 1) // context
        return self._validation.windows(evenly_spaced(windows, available), context)


def open_dataset(fingerprint: str, home: Path) -> Dataset:
    """The data set of that fingerprint under the Headcount home.

    Raises `UserError` where it is missing or where its files are not those of its manifest.
    """
    folder = dataset_folder(fingerprint, home)
    return Dataset(read_manifest(folder), folder)


class _Side:
    """The shards of one side, end to end: a window may reach from one into the next."""

    def __init__(self, manifest: Manifest, shards: Sequence[Shard], folder: Path) -> None:
        self._vocab_size = manifest.vocab_size
        self._paths = [folder / shard.file for shard in shards]
        self._tokens = [
            map_shard(path, shard.tokens, manifest.dtype, manifest.header)
            for path, shard in zip(self._paths, shards, strict=True)
        ]
        self._ends = list(accumulate(shard.tokens for shard in shards))

    def windows(self, indices: Indices, context: int) -> Windows:
        windows = np.empty((len(indices), context + 1), dtype=np.int64)
        for window, index in zip(windows, indices.tolist(), strict=True):
            self._read(index * context, window)
        return windows

    def _read(self, start: int, window: npt.NDArray[np.int64]) -> None:
        """Fill `window` with the tokens from `start` on."""
        filled, shard = 0, bisect_right(self._ends, start)
        while filled < len(window):
            tokens = self._tokens[shard]
            offset = start + filled - (self._ends[shard] - len(tokens))
            part = tokens[offset : offset + len(window) - filled]
            if part.size and part.max() >= self._vocab_size:
                raise unknown_token(self._paths[shard], tokens, self._vocab_size)
            window[filled : filled + len(part)] = part
            filled += len(part)
            shard += 1
