"""The weights that a model starts from.

Each is drawn by (seed, name), in float32 on the CPU, so that neither the device nor the rest of the model
changes it.
"""

import hashlib
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import torch
from torch import Tensor, nn

from headcount.trainer.residuals.interface import ResidualStream

THREADS = 8
"""One draw takes one core."""

KEPT_BYTES = 2**29
"""Of draws that a process keeps. Jobs at one seed share theirs, and follow each other in a slot; drawing the
embedding of a vocabulary of 151,936 takes a second or more."""


@torch.no_grad()
def draw_parameters(model: nn.Module, stream: ResidualStream, std: float, seed: int) -> None:
    """Draw every matrix from N(0, std²), and add to the stream's own parameters the noise it asks for."""
    stream_std = {id(parameter): noise for parameter, noise in stream.drawn()}
    drawn = [
        (name, parameter)
        for name, parameter in model.named_parameters()
        if (id(parameter) in stream_std if name.startswith("stream.") else parameter.dim() >= 2)
    ]

    def draw(named: tuple[str, Tensor]) -> Tensor:
        return _draws.normal(seed, named[0], named[1].shape)

    with ThreadPoolExecutor(THREADS) as pool:
        for (name, parameter), normal in zip(drawn, pool.map(draw, drawn), strict=True):
            if name.startswith("stream."):
                parameter.add_((normal * stream_std[id(parameter)]).to(parameter.device))
            else:
                parameter.copy_(normal).mul_(std).mul_(stream.draw_factor(name))


class _Draws:
    """Standard normals by (seed, name, shape); the latest stay, up to `KEPT_BYTES` together."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, str, torch.Size], Tensor] = OrderedDict()
        self._lock = Lock()

    def normal(self, seed: int, name: str, shape: torch.Size) -> Tensor:
        """The caller does not write to it."""
        key = seed, name, shape
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        digest = hashlib.sha256(f"draw/{seed}/{name}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little", signed=True))
        normal = torch.randn(shape, generator=generator)
        with self._lock:
            self._kept[key] = normal
            while sum(kept.nbytes for kept in self._kept.values()) > KEPT_BYTES:
                self._kept.popitem(last=False)
        return normal


_draws = _Draws()
