"""The pieces with which tests write a stream's equations out anew.

Sublayers are fixed random maps x → tanh(W x). `check` compares what each of them reads, and the head.
"""

from collections.abc import Callable
from typing import Any

import torch
from residual_variants import build, job, perturb
from torch import Tensor

TOKENS, WIDTH, SITES = 5, 16, 6
"""Three blocks, so that no number of sublayers is a number of streams."""

Sublayer = Callable[[Tensor], Tensor]


def stream_of(**variant: Any) -> Any:
    return perturb(build(job(variant, layers=SITES // 2))).stream


def embedding() -> Tensor:
    return torch.randn(TOKENS, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(5))


def sublayers() -> list[Sublayer]:
    generator = torch.Generator().manual_seed(6)
    maps = torch.randn(SITES, WIDTH, WIDTH, dtype=torch.float64, generator=generator) / 3
    return [lambda x, w=w: torch.tanh(x @ w.T) for w in maps]  # type: ignore[misc]


def reads_of(stream: Any) -> list[Tensor]:
    """What the stream gives each sublayer, and the head."""
    state, reads = stream.begin(embedding()[None]), []
    for site, sublayer in enumerate(sublayers()):
        reads.append(stream.read(state, site)[0])
        stream.write(state, site, sublayer(reads[-1])[None])
    return [*reads, stream.finish(state)[0]]


def check(stream: Any, expected: list[Tensor]) -> None:
    for site, (read, reference) in enumerate(zip(reads_of(stream), expected, strict=True)):
        torch.testing.assert_close(
            read, reference, rtol=0, atol=1e-11, msg=lambda m, s=site: f"site {s}: {m}"
        )


def rms_norm(x: Tensor, weight: Tensor | float = 1.0, eps: float = 1e-6) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight
