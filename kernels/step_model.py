"""A plain pre-norm transformer with an additive or a depth-routed residual stream, for the benchmark of a
training step. Sublayers are compiled, the routing is not.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return, untyped-decorator"

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headcount.kernels.history import DepthHistory

HEAD_WIDTH = 64
EPS = 1e-6


class Model(NamedTuple):
    """Shape of a model and of one micro-batch."""

    windows: int
    context: int
    width: int
    layers: int
    feed_forward: int
    routing_heads: int
    vocabulary: int = 151_936

    @property
    def tokens(self) -> int:
        return self.windows * self.context

    def flops(self) -> float:
        """Of one micro-batch, forward and backward, without routing's: 6 a weight and token, and attention's
        6 · layers · width · context a token, which meets half of the context on average.
        """
        weights = self.layers * (4 * self.width**2 + 3 * self.width * self.feed_forward)
        weights += self.vocabulary * self.width
        return (6.0 * weights + 6.0 * self.layers * self.width * self.context) * self.tokens


def _attention(x: Tensor, qkv: Tensor, angles: Tensor, windows: int) -> Tensor:
    """Causal attention of normed inputs, up to its last product: [T, d]."""
    tokens, width = x.shape
    packed = F.linear(x, qkv)
    query, key, value = packed.view(windows, -1, 3, width // HEAD_WIDTH, HEAD_WIDTH).permute(2, 0, 3, 1, 4)
    mixed = F.scaled_dot_product_attention(
        _rotate(query, angles), _rotate(key, angles), value, is_causal=True
    )
    return mixed.transpose(1, 2).reshape(tokens, width)


def _feed_forward(x: Tensor, gate_up: Tensor) -> Tensor:
    """SwiGLU of normed inputs, up to its last product."""
    gate, up = F.linear(x, gate_up).chunk(2, -1)
    return F.silu(gate) * up


def _rotate(x: Tensor, angles: Tensor) -> Tensor:
    cos, sin = angles
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def _additive_attention(
    x: Tensor, norm: Tensor, qkv: Tensor, last: Tensor, angles: Tensor, windows: int
) -> Tensor:
    normed = _norm(x, norm)
    return x + F.linear(_attention(normed, qkv, angles, windows), last)


def _additive_feed_forward(x: Tensor, norm: Tensor, gate_up: Tensor, last: Tensor) -> Tensor:
    return x + F.linear(_feed_forward(_norm(x, norm), gate_up), last)


def _loss(x: Tensor, head: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(F.linear(x, head).float(), targets)


def _norm(x: Tensor, weight: Tensor) -> Tensor:
    return F.rms_norm(x, x.shape[-1:], weight, EPS)


@cache
def _compiled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return torch.compile(function)


class Transformer(nn.Module):
    """Weights from one seed, the same for every residual stream; on the CPU nothing is compiled."""

    def __init__(self, model: Model, *, device: str = "cuda", dtype: torch.dtype = torch.bfloat16) -> None:
        super().__init__()
        self.model = model
        self.device = device
        generator = torch.Generator(device).manual_seed(0)

        def matrix(rows: int, columns: int) -> nn.Parameter:
            draw = torch.randn(rows, columns, device=device, generator=generator)
            return nn.Parameter((0.02 * draw).to(dtype))

        def ones(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.ones(shape, device=device, dtype=dtype))

        width, hidden = model.width, model.feed_forward
        self.embedding, self.head = matrix(model.vocabulary, width), matrix(model.vocabulary, width)
        self.norms = nn.ParameterList(ones(width) for _ in range(2 * model.layers + 1))
        self.first = nn.ParameterList()  # of each sublayer: query, key and value, or gate and up
        self.last = nn.ParameterList()
        for _ in range(model.layers):
            self.first.extend((matrix(3 * width, width), matrix(2 * hidden, width)))
            self.last.extend((matrix(width, width), matrix(width, hidden)))
        sites = 2 * model.layers + 1
        draw = torch.randn(sites, width, device=device, generator=generator)
        self.queries = nn.Parameter(draw / (width // model.routing_heads) ** 0.5)
        self.key_weights = nn.Parameter(torch.ones(sites, width, device=device))
        steps = torch.arange(model.context, device=device)[:, None]
        turns = steps / 10_000 ** (torch.arange(0, HEAD_WIDTH, 2, device=device) / HEAD_WIDTH)
        self.angles = torch.stack((turns.cos(), turns.sin())).to(dtype)

    def forward(self, tokens: Tensor, targets: Tensor, residual: str) -> Tensor:
        """The mean loss; `residual` is `additive` or the implementation of depth routing."""
        x = F.embedding(tokens, self.embedding)
        x = self._additive(x) if residual == "additive" else self._routed(x, residual)
        return self._run(_loss, x, self.head, targets)

    def _run(self, function: Callable[..., Tensor], *arguments: Tensor | int) -> Tensor:
        return (_compiled(function) if self.device == "cuda" else function)(*arguments)

    def _additive(self, x: Tensor) -> Tensor:
        for index, (norm, first, last) in enumerate(zip(self.norms, self.first, self.last, strict=False)):
            if index % 2:
                x = self._run(_additive_feed_forward, x, norm, first, last)
            else:
                x = self._run(_additive_attention, x, norm, first, last, self.angles, self.model.windows)
        return self._run(_norm, x, self.norms[-1])

    def _routed(self, x: Tensor, implementation: str) -> Tensor:
        heads = self.model.routing_heads
        history = DepthHistory(self.queries, self.key_weights, heads, implementation=implementation)
        history.write(x)
        for index, (norm, first, last) in enumerate(zip(self.norms, self.first, self.last, strict=False)):
            x = history.read_normed(norm, EPS)
            if index % 2:
                x = self._run(_feed_forward, x, first)
            else:
                x = self._run(_attention, x, first, self.angles, self.model.windows)
            history.write_product(x, last)
        return history.read_normed(self.norms[-1], EPS)
