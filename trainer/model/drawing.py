"""The weights that a model starts from.

Each is drawn by (seed, name), in float32 on the CPU, so that neither the device nor the rest of the model
changes it.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor

import torch
from torch import Tensor, nn

from headcount.trainer.residuals.interface import ResidualStream

THREADS = 8
"""A generator takes one core."""

CHUNK = 2**20
"""Values of one generator. A larger parameter has several, by (seed, name, number): the 78 million values of
an embedding of 151,936 tokens would take half a second from one."""

KEPT_BYTES = 2**29
"""Of draws that a process keeps. Jobs at one seed share theirs, and follow each other in a slot."""


@torch.no_grad()
def draw_parameters(model: nn.Module, stream: ResidualStream, std: float, seed: int) -> None:
    """Draw every matrix from N(0, std²), and add to the stream's own parameters the noise it asks for."""
    stream_std = {id(parameter): noise for parameter, noise in stream.drawn()}
    drawn = [
        (name, parameter)
        for name, parameter in model.named_parameters()
        if (id(parameter) in stream_std if name.startswith("stream.") else parameter.dim() >= 2)
    ]

    with ThreadPoolExecutor(THREADS) as pool:
        normals = [_draws.normal(pool, seed, name, parameter.shape) for name, parameter in drawn]
        for (name, parameter), normal in zip(drawn, normals, strict=True):
            if name.startswith("stream."):
                parameter.add_((normal() * stream_std[id(parameter)]).to(parameter.device))
            else:
                parameter.copy_(normal()).mul_(std).mul_(stream.draw_factor(name))


class _Draws:
    """Standard normals by (seed, name, shape); the latest stay, up to `KEPT_BYTES` together."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, str, torch.Size], Tensor] = OrderedDict()

    def normal(self, pool: Executor, seed: int, name: str, shape: torch.Size) -> Callable[[], Tensor]:
        """Begin to draw in `pool`; what is returned waits for the end. The tensor is not to be written to."""
        key = seed, name, shape
        if key in self._kept:
            self._kept.move_to_end(key)
            kept = self._kept[key]
            return lambda: kept
        drawn = torch.empty(shape)
        chunks = torch.split(drawn.view(-1), CHUNK)
        work = [pool.submit(_fill, chunk, f"draw/{seed}/{name}", n) for n, chunk in enumerate(chunks)]

        def wait() -> Tensor:
            for part in work:
                part.result()
            self._kept[key] = drawn
            while sum(kept.nbytes for kept in self._kept.values()) > KEPT_BYTES:
                self._kept.popitem(last=False)
            return drawn

        return wait


def _fill(chunk: Tensor, name: str, number: int) -> None:
    """With what the chunk's own generator draws."""
    digest = hashlib.sha256((f"{name}/{number}" if number else name).encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little", signed=True))
    torch.randn(len(chunk), generator=generator, out=chunk)


_draws = _Draws()
