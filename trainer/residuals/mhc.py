"""Manifold-constrained hyper-connections (mHC, arXiv 2512.24880): n = `streams` residual streams whose mixing
is doubly stochastic.

With the streams x [n, d] of a token, u = vec(x) and z = Φ u / rms(u), for each sublayer f:

    pre = σ(a_pre z_pre + b_pre) + 1e-6
    post = 2σ(a_post z_post + b_post)
    M = Sinkhorn(a_res z_res + b_res)
    x'_k = post_k · f(Σ_j pre_j x_j) + Σ_j M_kj x_j

The coefficients are computed in float32 and cast to the activations' type to mix; the Sinkhorn step (20
iterations, its last division over rows) is kept out of torch.compile. The rms has no weight and eps 1e-20.

Start: every a is 0.01. No start of b and Φ is published, so it is a setting, `mhc_init`:

    near_identity  Φ = 0, b_pre = +2 for stream (site mod n) and −2 for the others, b_post = 0, b_res = 4·I
    normal         Φ ~ N(0, 0.02²), b = 0

With near_identity all streams stay equal, and the model is the additive one up to the norms' eps and to
Sinkhorn's, which takes about 1e-6 off each sum.

Assumptions: the embedding is repeated n times at the start and the streams are summed at the end, as in
hyper-connections; weight decay applies to Φ and spares a and b.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from headcount.kernels.definition import exact_dtype
from headcount.trainer.config import ModelConfig
from headcount.trainer.residuals.interface import ResidualStream, State
from headcount.trainer.residuals.mixing import Rows, recomputed, sinkhorn

READS = ("streams", "mhc_init")
DIAGNOSTICS = ("read", "mixing", "write")

RMS_EPS = 1e-20
READ_EPS = 1e-6
NORMAL_STD = 0.02


def label(model: ModelConfig) -> str:
    return f"mHC, n = {model.streams}, start {model.mhc_init.replace('_', ' ')}"


def added_parameters(model: ModelConfig) -> int:
    """Φ of (n² + 2n) · n·d, as many biases, and three scales for each sublayer."""
    n = model.streams
    return 2 * model.layers * ((n * n + 2 * n) * (n * model.d_model + 1) + 3)


def added_flops_per_token(model: ModelConfig) -> float:
    """The product with Φ, then read, mixing and write: 2·d for each coefficient; thrice with backward."""
    n, width = model.streams, model.d_model
    coefficients = n * n + 2 * n
    return 6.0 * model.layers * 2 * width * (n * coefficients + coefficients)


def kept_per_token(model: ModelConfig) -> float:
    """n states for each sublayer but the first, whose are one, its output and its coefficients."""
    n = model.streams
    return 2 * model.layers * ((n + 1) * model.d_model + n * n + 2 * n) - (n - 1) * model.d_model


class _Coefficients(nn.Module):
    """Of one sublayer: read [..., n], mixing [..., n, n] from column to row, write [..., n]."""

    def __init__(self, config: ModelConfig, site: int) -> None:
        super().__init__()
        n = config.streams
        self.map = nn.Parameter(torch.zeros(n * n + 2 * n, n * config.d_model))
        self.scales = nn.Parameter(torch.full((3,), 0.01))
        self.bias = nn.Parameter(torch.zeros(n * n + 2 * n))
        if config.mhc_init == "near_identity":
            own = torch.eye(n)
            start = torch.cat((4 * own[site % n] - 2, torch.zeros(n), 4 * own.flatten()))
            self.bias = nn.Parameter(start)

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return recomputed(self._computed, rows)

    def _computed(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        n = rows.shape[-2]
        flat = rows.flatten(-2).to(exact_dtype(rows.dtype))
        inverse_rms = torch.rsqrt(flat.square().mean(-1, keepdim=True) + RMS_EPS)
        logits = nn.functional.linear(flat, self.map) * inverse_rms
        sizes = [n, n, n * n]
        parts, biases = torch.split(logits, sizes, dim=-1), torch.split(self.bias, sizes)
        pre, post, res = (a * z + b for a, z, b in zip(self.scales, parts, biases, strict=True))
        mixing = sinkhorn(res.unflatten(-1, (n, n)))
        return torch.sigmoid(pre) + READ_EPS, mixing, 2 * torch.sigmoid(post)


class Stream(ResidualStream):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.streams, self.init = config.streams, config.mhc_init
        self.sublayers: Sequence[_Coefficients] = nn.ModuleList(  # type: ignore[assignment]
            _Coefficients(config, site) for site in range(2 * config.layers)
        )

    def begin(self, embedding: Tensor) -> State:
        return Rows.copies(embedding, self.streams)

    def read(self, state: State, site: int) -> Tensor:
        read, mixing, write = self.sublayers[site](state.rows)
        x: Tensor = state.read(read.unsqueeze(-2))
        state.prepare(mixing, write)
        return x.squeeze(-2)

    def write(self, state: State, site: int, output: Tensor) -> None:
        state.advance(output.unsqueeze(-2))

    def finish(self, state: State) -> Tensor:
        end: Tensor = state.rows.sum(-2)
        return end

    def drawn(self) -> Iterable[tuple[nn.Parameter, float]]:
        return [(c.map, NORMAL_STD) for c in self.sublayers] if self.init == "normal" else []

    def undecayed(self) -> Iterable[nn.Parameter]:
        return [p for coefficients in self.sublayers for p in (coefficients.scales, coefficients.bias)]

    def diagnose(self, state: State, site: int) -> dict[str, Tensor]:
        """The coefficients of the sublayer at `site`, for each token."""
        return dict(zip(DIAGNOSTICS, self.sublayers[site](state.rows), strict=True))
