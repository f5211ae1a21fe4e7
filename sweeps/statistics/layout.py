"""The table of losses, cells by seeds, and the randomised block design that it forms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class LossTable(NamedTuple):
    """`losses` has one row a cell and one column a seed; NaN where a cell lacks the seed."""

    seeds: tuple[int, ...]
    losses: Array


def loss_table(cells: Sequence[Mapping[int, float]]) -> LossTable:
    """Cells that map seed to loss, as one table over all their seeds in ascending order."""
    seeds = tuple(sorted(set[int]().union(*cells)))
    losses = np.array([[cell.get(seed, np.nan) for seed in seeds] for cell in cells], dtype=np.float64)
    return LossTable(seeds, losses.reshape(len(cells), len(seeds)))


def check_table(losses: Array, cells: int = 1) -> Array:
    """The losses as a float table of at least `cells` rows; ValueError when they are not one."""
    table = np.asarray(losses, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] < cells or table.shape[1] == 0:
        raise ValueError(
            f"losses must be cells × seeds with at least {cells} × 1 entries, but have shape {table.shape}"
        )
    if np.any(np.isinf(table)):
        cell, seed = np.argwhere(np.isinf(table))[0].tolist()
        raise ValueError(
            f"losses[{cell}, {seed}] is {table[cell, seed]}: leave cells with diverged seeds out"
        )
    return table


def magnitude(table: Array) -> float:
    """The largest absolute loss: what the rounding of differences is measured against."""
    return float(np.fmax.reduce(np.abs(table), axis=None, initial=0.0))


@dataclass(frozen=True, eq=False)
class BlockLayout:
    """Which cell has which seed, solved for y = cell + seed + error.

    The seeds are eliminated (intrablock analysis; Searle, Linear Models, chapter 7): the effects of the cells
    solve C·effects = cell totals − their seeds' means, with C = D − N·S⁻¹·Nᵀ, N the incidence, and D and S
    the diagonals of the cells' and seeds' n. C has the generalised inverse D⁻¹ + share·between·shareᵀ, with
    `share` = D⁻¹·N and `between` = (S − Nᵀ·D⁻¹·N)⁺: of the size of the seeds, which are few, while cells are
    many. `group` numbers the connected cells: cells of two groups share no seed, directly or through others,
    and cannot be compared.
    """

    present: NDArray[np.bool_]
    share: Array
    between: Array
    group: NDArray[np.int64]
    df: int

    @cached_property
    def balanced(self) -> bool:
        """Whether every cell has every seed."""
        return bool(self.present.all())

    @cached_property
    def seeds(self) -> NDArray[np.int64]:
        """How many each cell has."""
        return np.asarray(self.present.sum(1))

    def variance(self, one: int, other: int) -> float:
        """That of the difference of two cells of a group, in that of the error."""
        if self.balanced:
            return 2.0 / float(self.present.shape[1])
        apart = self.share[one] - self.share[other]
        return float(1 / self.seeds[one] + 1 / self.seeds[other] + apart @ self.between @ apart)

    def effects(self, losses: Array) -> Array:
        """Effects of the cells, their mean at 0 within each group; `losses` may have leading axes."""
        if self.balanced:
            means = losses.mean(-1)
            return np.asarray(means - means.mean(-1, keepdims=True))
        y = np.where(self.present, losses, 0.0)
        seed_means = y.sum(-2) / np.maximum(self.present.sum(0), 1)
        left = y.sum(-1) - seed_means @ self.present.T
        effects = left / np.maximum(self.seeds, 1) + left @ self.share @ self.between @ self.share.T
        for members in self._groups:
            effects[..., members] -= effects[..., members].mean(-1, keepdims=True)
        return np.asarray(effects)

    @cached_property
    def _groups(self) -> list[NDArray[np.int64]]:
        """The cells of each, without those that have no seed: their effects are 0."""
        return [np.flatnonzero(self.group == number) for number in set(self.group[self.seeds > 0].tolist())]

    def residuals(self, losses: Array) -> Array:
        """What cell and seed leave of the losses, 0 where a cell lacks the seed."""
        y = np.where(self.present, losses - self.effects(losses)[..., None], 0.0)
        seed_effects = y.sum(-2) / np.maximum(self.present.sum(0), 1)
        return np.where(self.present, y - seed_effects[..., None, :], 0.0)


def block_layout(present: NDArray[np.bool_]) -> BlockLayout:
    """The layout of a table whose entry [cell, seed] is known where `present` is true.

    df = N − cells − seeds + 1 when all cells are connected, and (cells − 1)(seeds − 1) when none is missing.
    """
    return _layout(present.tobytes(), present.shape)


@lru_cache(maxsize=64)
def _layout(known: bytes, shape: tuple[int, int]) -> BlockLayout:
    """Made once for all lines of a sweep that have the same seeds."""
    present = np.frombuffer(known, dtype=np.bool_).reshape(shape)
    group = np.arange(len(present))
    for column in present.T:
        if column.any():
            joined = np.zeros(len(present), dtype=np.bool_)
            joined[group[column]] = True
            group[joined[group]] = group[column].min()
    seen = present.any(1)
    rank = int(seen.sum()) - len(set(group[seen].tolist()))
    df = int(present.sum()) - int(present.any(0).sum()) - rank
    share = present / np.maximum(present.sum(1), 1)[:, None]
    between = np.linalg.pinv(np.diag(present.sum(0)) - present.T @ share, rcond=1e-10, hermitian=True)
    return BlockLayout(present, share, between, group, df)
