"""What every form of a depth history checks: whose turn it is, and whether what comes fits."""

from collections.abc import Sequence

import torch
from torch import Tensor

from headcount.kernels.choice import check_name
from headcount.kernels.definition import check_heads

RECOMPUTED = " (activation checkpointing must wrap the sublayer alone, not its read or write)"

Vectors = Tensor | Sequence[Tensor]  # [N, d], or N vectors [d], one a site


class Turns:
    """Vectors [..., d] are written and sites read in turn, the embedding first."""

    def __init__(
        self, vectors: dict[str, Vectors], heads: int, implementation: str, *, extra_writes: int = 0
    ) -> None:
        """vectors: the sites' parameters by name, queries first; extra_writes: how many follow the last read.

        Raises ValueError naming the argument that does not fit.
        """
        (first, queries), *others = vectors.items()
        self.num_sites, self.width = _shape_of(first, queries)
        for name, rows in others:
            shape = _shape_of(name, rows)
            if shape != (self.num_sites, self.width):
                raise ValueError(
                    f"{name} is of shape {list(shape)} but {first} of {[self.num_sites, self.width]}: "
                    "every site needs one of each"
                )
        check_heads(heads, self.width)
        check_name(implementation)
        self.vectors, self.heads, self.implementation = vectors, heads, implementation
        self.num_writes = self.num_sites + extra_writes
        self.num_written = self.num_read = 0
        self.kind: tuple[torch.Size, torch.dtype, torch.device] | None = None

    def check_source(self, source: Tensor) -> None:
        """Raise ValueError where a written vector does not fit those before, RuntimeError out of turn."""
        self.check_turn()
        if self.kind is None:
            if source.dim() == 0 or source.shape[-1] != self.width or not source.is_floating_point():
                raise ValueError(
                    f"source must be floating point of shape [..., {self.width}] like queries, got "
                    f"{source.dtype} {list(source.shape)}"
                )
            for name, rows in self.vectors.items():
                if rows[0].device != source.device:
                    raise ValueError(f"{name} is on {rows[0].device} but the source is on {source.device}")
            self.kind = (source.shape, source.dtype, source.device)
        elif (source.shape, source.dtype, source.device) != self.kind:
            shape, dtype, device = self.kind
            raise ValueError(
                f"source is {source.dtype} {list(source.shape)} on {source.device}, but the first was "
                f"{dtype} {list(shape)} on {device}: all sources need one shape, dtype and device"
            )

    def check_turn(self) -> None:
        if self.num_written != self.num_read or self.num_written == self.num_writes:
            raise RuntimeError(
                f"write out of turn: {self.num_written} sources and {self.num_read} reads of "
                f"{self.num_sites} sites so far; write the embedding, then read and write in turn{RECOMPUTED}"
            )

    def count_read(self) -> int:
        """The site whose read is due."""
        if self.num_read + 1 != self.num_written or self.num_read == self.num_sites:
            raise RuntimeError(
                f"read out of turn: {self.num_written} sources and {self.num_read} reads so far; each read "
                f"follows the write of one more source{RECOMPUTED}"
            )
        self.num_read += 1
        return self.num_read - 1

    def check_finish(self) -> None:
        if self.num_written != self.num_writes:
            raise RuntimeError(
                f"finish after {self.num_written} sources, but the model has {self.num_sites} sites"
            )


def rows_of(vectors: Vectors) -> Sequence[Tensor]:
    return vectors.unbind(0) if isinstance(vectors, Tensor) else vectors


def matrix_of(vectors: Vectors) -> Tensor:
    return vectors if isinstance(vectors, Tensor) else torch.stack(tuple(vectors))


def _shape_of(name: str, vectors: Vectors) -> tuple[int, int]:
    """(sites, d) of one vector a site, or ValueError."""
    rows = rows_of(vectors)
    if not rows or any(
        row.dim() != 1 or row.shape != rows[0].shape or not row.is_floating_point() for row in rows
    ):
        found = list(vectors.shape) if isinstance(vectors, Tensor) else [list(row.shape) for row in rows]
        raise ValueError(f"{name} must be floating point, one vector [d] for each site, got shape {found}")
    return len(rows), len(rows[0])
