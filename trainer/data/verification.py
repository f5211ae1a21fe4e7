"""Shards read through: their hash, and whether every id is in the vocabulary."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headcount.trainer.data.manifest import Manifest
from headcount.trainer.data.shards import Tokens, map_shard, unknown_token
from headcount.trainer.data.tokenizer import Lengths
from headcount.trainer.errors import UserError

_BLOCK = 16 * 1024 * 1024

Advance = Callable[[int], None]
"""Told how many more tokens were read."""


@dataclass(frozen=True)
class Scan:
    """What a shard holds."""

    sha256: str
    separators: int | None
    bytes: int | None


def scan(
    path: Path,
    tokens: Tokens,
    vocab_size: int,
    advance: Advance,
    separator: int | None = None,
    lengths: Lengths | None = None,
) -> Scan:
    """Read a shard through. Raises `UserError` naming it where an id is not below `vocab_size`, or has no
    length."""
    known = vocab_size if lengths is None else min(vocab_size, len(lengths))
    total = hashlib.sha256()
    separators = size = 0
    for start in range(0, len(tokens), _BLOCK):
        block = tokens[start : start + _BLOCK]
        if block.max() >= known:
            raise unknown_token(path, block, known)
        total.update(block.data.cast("B"))
        if separator is not None:
            separators += int((block == separator).sum())
        if lengths is not None:
            size += int(lengths[block].sum())
        advance(len(block))
    return Scan(
        total.hexdigest(), None if separator is None else separators, None if lengths is None else size
    )


def verify(manifest: Manifest, folder: Path, advance: Advance = lambda tokens: None) -> None:
    """Read all shards through. Raises `UserError` naming the first that is not as its manifest states."""
    for shard in (*manifest.train, *manifest.validation):
        path = folder / shard.file
        tokens = map_shard(path, shard.tokens, manifest.dtype, manifest.header)
        if scan(path, tokens, manifest.vocab_size, advance).sha256 != shard.sha256:
            raise UserError(
                f"{path} holds other tokens than its manifest states, in the same number; prepare or copy it "
                "again"
            )


def looks_wider(tokens: Tokens) -> bool:
    """Whether two-byte tokens look like the halves of four-byte ones: every other one is next to nothing."""
    sample = np.asarray(tokens[: 2 * (min(len(tokens), 65536) // 2)])
    return len(sample) >= 64 and tokens.dtype.itemsize == 2 and bool((sample[1::2] <= 3).all())
