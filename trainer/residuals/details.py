"""What `wav` and `haares` share: a depth history in blocks, each with details beside its sum."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from headcount.kernels.definition import exact_dtype

Sign = Callable[[int], int]
"""From a sublayer's site to 1 or −1, by which its output enters a detail."""


def split_sign(block_size: int) -> Sign:
    """First half minus second half: the first half of a block are its first ⌊S/2⌋ outputs."""
    return lambda site: 1 if site % block_size < block_size // 2 else -1


def phase_sign(site: int) -> int:
    """Attention minus MLP."""
    return 1 if site % 2 == 0 else -1


@dataclass
class DetailedBlocks:
    """The sources whole blocks have left, and the running block's sum and details.

    A block's sources are its sum and its details in the order of `signs`, each rescaled to the sum's rms.
    """

    size: int
    signs: tuple[Sign, ...]
    eps: float
    whole: list[Tensor]
    running: list[Tensor] = field(default_factory=list)

    def add(self, site: int, output: Tensor) -> None:
        """Take in the output of sublayer `site`."""
        terms = [output, *(output if sign(site) > 0 else -output for sign in self.signs)]
        self.running = [a + b for a, b in zip(self.running, terms, strict=True)] if self.running else terms
        if (site + 1) % self.size == 0:
            self.whole += self._rescaled()
            self.running = []

    def sources(self) -> list[Tensor]:
        """The embedding, then each block's sources, those of the running block last."""
        return [*self.whole, *self._rescaled()]

    def _rescaled(self) -> list[Tensor]:
        if not self.running:
            return []
        total, *details = self.running
        return [total, *(self._to_rms_of(total, detail) for detail in details)]

    def _to_rms_of(self, total: Tensor, detail: Tensor) -> Tensor:
        with torch.no_grad():
            rms = [
                x.to(exact_dtype(x.dtype)).square().mean(-1, keepdim=True) + self.eps for x in (total, detail)
            ]
            factor = (rms[0] / rms[1]).sqrt().to(detail.dtype)
        return detail * factor
