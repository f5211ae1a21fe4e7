"""Which part of a document is for training and which for validation.

A document goes to validation when its SHA-256 falls in the lowest twentieth, whatever else is there. A
document of 1.25 MiB or more is cut instead: its last twentieth, from a 64 KiB boundary, is validation. Where
that leaves one side of the data set empty (few documents), every document is cut so.
"""

BLOCK = 64 * 1024
TWENTIETH = 20
LARGE = TWENTIETH * BLOCK
"""Bytes from which a document is cut."""


def train_part(size: int, digest: bytes, cut_all: bool) -> int:
    """How many of a document's `size` bytes, from its start, are for training. `digest`: its SHA-256."""
    if size < LARGE and not cut_all:
        in_validation = int.from_bytes(digest[:8], "big") < 2**64 // TWENTIETH
        return 0 if in_validation else size
    cut = size * (TWENTIETH - 1) // TWENTIETH
    return cut - cut % BLOCK if size >= LARGE else cut
