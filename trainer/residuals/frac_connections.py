"""Frac-connections (arXiv 2503.14125): hyper-connections over m = `streams` parts of the width, not copies.

With H [m, d/m] the state cut into m parts, and for each sublayer f matrices Y, A [m, m] and a vector B [m]:

    H' = B · cut(f(joined(Yᵀ H))) + Aᵀ H

`connections` is `static`, or `dynamic`: Y + s_a·tanh(h W_Y), A + s_a·tanh(h W_A), B + s_b·tanh(h W_B), for
each part of h = LayerNorm(H) over d/m.

Start: Y = A = I, B = 1, W = 0, s = 0.01: the additive stream bit for bit.

Assumptions: one scale s_a serves Y and A; the LayerNorm has a weight and a bias, and decays with the dynamic
part. As published, weight decay spares the static part.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from headcount.kernels.definition import exact_dtype
from headcount.trainer.config import ModelConfig
from headcount.trainer.residuals.interface import ResidualStream, State
from headcount.trainer.residuals.mixing import Rows, recomputed

READS = ("connections", "streams")
DIAGNOSTICS = ("read", "mixing", "write")


def label(model: ModelConfig) -> str:
    return f"frac-connections ({model.connections}), m = {model.streams}"


def misfit(model: ModelConfig) -> tuple[str, str] | None:
    if model.connections == "simplified":
        return "connections", "frac_connections has no simplified form; expected dynamic or static"
    if model.d_model % model.streams:
        return "streams", f"{model.streams} does not divide model.d_model ({model.d_model})"
    return None


def added_parameters(model: ModelConfig) -> int:
    """m(2m + 1) a sublayer; the dynamic form adds (2m + 1)·d/m weights, two scales and the norm's 2·d/m."""
    m = model.streams
    part = model.d_model // m
    dynamic = part * (2 * m + 1) + 2 + 2 * part if model.connections == "dynamic" else 0
    return 2 * model.layers * (m * (2 * m + 1) + dynamic)


def added_flops_per_token(model: ModelConfig) -> float:
    """Read, mixing and write, 2·d/m a coefficient; the dynamic form's products; thrice with backward."""
    m = model.streams
    part = model.d_model // m
    products = 2 * m * part * (2 * m + 1) if model.connections == "dynamic" else 0
    return 6.0 * model.layers * (2 * part * (2 * m * m + m) + products)


def kept_per_token(model: ModelConfig) -> float:
    """The state and the output for each sublayer, and the coefficients where they depend on the token."""
    m = model.streams
    coefficients = 2 * m * m + m if model.connections == "dynamic" else 0
    return 2 * model.layers * (2 * model.d_model + coefficients)


class _Static(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        m = config.streams
        self.read = nn.Parameter(torch.eye(m))
        self.mixing = nn.Parameter(torch.eye(m))
        self.write = nn.Parameter(torch.ones(m))

    def forward(self, parts: Tensor) -> tuple[Tensor, ...]:
        """For each token: read and mixing [..., m, m] from row to column, write [..., m]."""
        tokens = parts.shape[:-2]
        return tuple(c.expand(*tokens, *c.shape) for c in (self.read, self.mixing, self.write))


class _Dynamic(_Static):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        m, part = config.streams, config.d_model // config.streams
        self.norm_weight = nn.Parameter(torch.ones(part))
        self.norm_bias = nn.Parameter(torch.zeros(part))
        self.read_map = nn.Parameter(torch.zeros(m, part))
        self.mixing_map = nn.Parameter(torch.zeros(m, part))
        self.write_map = nn.Parameter(torch.zeros(1, part))
        self.mixing_scale = nn.Parameter(torch.full((1,), 0.01))
        self.write_scale = nn.Parameter(torch.full((1,), 0.01))

    def forward(self, parts: Tensor) -> tuple[Tensor, ...]:
        return recomputed(self._coefficients, parts)

    def _coefficients(self, parts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        parts = parts.to(exact_dtype(parts.dtype))
        m = parts.shape[-2]
        normed = nn.functional.layer_norm(parts, parts.shape[-1:], self.norm_weight, self.norm_bias)
        maps = torch.cat((self.read_map, self.mixing_map, self.write_map))
        changes = torch.tanh(nn.functional.linear(normed, maps))
        read, mixing, write = torch.split(changes, [m, m, 1], dim=-1)
        return (
            self.read + self.mixing_scale * read,
            self.mixing + self.mixing_scale * mixing,
            self.write + self.write_scale * write.squeeze(-1),
        )


class Stream(ResidualStream):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.fractions = config.streams
        form = _Dynamic if config.connections == "dynamic" else _Static
        self.sublayers: Sequence[_Static] = nn.ModuleList(  # type: ignore[assignment]
            form(config) for _ in range(2 * config.layers)
        )

    def begin(self, embedding: Tensor) -> State:
        return Rows(self._cut(embedding))

    def read(self, state: State, site: int) -> Tensor:
        read, mixing, write = self.sublayers[site](state.rows)
        x: Tensor = state.read(read.mT)
        state.prepare(mixing.mT, write)
        return x.flatten(-2)

    def write(self, state: State, site: int, output: Tensor) -> None:
        state.advance(self._cut(output))

    def finish(self, state: State) -> Tensor:
        x: Tensor = state.rows.flatten(-2)
        return x

    def undecayed(self) -> Iterable[nn.Parameter]:
        return [p for sublayer in self.sublayers for p in (sublayer.read, sublayer.mixing, sublayer.write)]

    def diagnose(self, state: State, site: int) -> dict[str, Tensor]:
        """The coefficients of the sublayer at `site`, for each token in the dynamic form."""
        return dict(zip(DIAGNOSTICS, self.sublayers[site](state.rows), strict=True))

    def _cut(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], self.fractions, -1)
