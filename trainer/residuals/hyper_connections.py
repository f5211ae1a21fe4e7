"""Hyper-connections (arXiv 2409.19606): n = `streams` parallel residual streams, mixed at every sublayer.

With the streams as the rows of H [n, d], and for each sublayer f a read A_m [n], a mixing A_r [n, n] and a
write B [n]:

    x = A_mᵀ H,        H' = A_rᵀ H + Bᵀ f(x)

`connections` chooses the form, which are different methods:

    static      A_m, A_r and B are parameters
    dynamic     A_m + s_a·tanh(h W_m), A_r + s_a·tanh(h W_r), B + s_b·tanh(h W_b), rows h of LayerNorm(H)
    simplified  the form in the tables of arXiv 2607.27230: read by a softmax over n logits, static A_r and B,
                the mean of the streams at the end

Start: all rows are the embedding, A_m is one-hot on stream (site mod n), A_r = I, B = 1, W = 0, s = 0.01: the
additive stream's function, with the output matrices rescaled as below, up to the norms' eps (the sum of the
rows is n times the additive state). `simplified`: logits 0, A_r = I, B = e_0, each with noise of std 0.02;
but for the noise this is the additive stream whose sublayers' outputs are divided by n.

Assumptions: the published scaling of the output matrices' initial std by √n divides it (the direction is not
spelled out); as published, weight decay spares the static part and not the dynamic part, of which the
LayerNorm is counted; in `simplified` all rows start as the embedding, and weight decay applies to everything.
"""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from headcount.kernels.definition import exact_dtype
from headcount.trainer.config import ModelConfig
from headcount.trainer.residuals.interface import ResidualStream, State
from headcount.trainer.residuals.mixing import Rows, recomputed

READS = ("connections", "streams")
DIAGNOSTICS = ("read", "mixing", "write")

SIMPLIFIED_STD = 0.02


def label(model: ModelConfig) -> str:
    form = (
        "simplified static, as in the MHAR tables" if model.connections == "simplified" else model.connections
    )
    return f"hyper-connections ({form}), n = {model.streams}"


def added_parameters(model: ModelConfig) -> int:
    """n² + 2n a sublayer; in the dynamic form also d·(n + 2) weights, two scales and the LayerNorm's 2·d."""
    n, width = model.streams, model.d_model
    dynamic = width * (n + 2) + 2 + 2 * width if model.connections == "dynamic" else 0
    return 2 * model.layers * (n * n + 2 * n + dynamic)


def added_flops_per_token(model: ModelConfig) -> float:
    """Read, mixing and write: 2·d for each coefficient; the dynamic form's products; thrice with backward."""
    n, width = model.streams, model.d_model
    products = 2 * n * width * (n + 2) if model.connections == "dynamic" else 0
    return 6.0 * model.layers * (2 * width * (n * n + 2 * n) + products)


def kept_per_token(model: ModelConfig) -> float:
    """n states for each sublayer but the first, whose are one, its output, coefficients where they vary."""
    n, sites = model.streams, 2 * model.layers
    coefficients = n * n + 2 * n if model.connections == "dynamic" else 0
    return sites * ((n + 1) * model.d_model + coefficients) - (n - 1) * model.d_model


class _Static(nn.Module):
    """The coefficients of one sublayer, the same for every token."""

    def __init__(self, config: ModelConfig, site: int) -> None:
        super().__init__()
        n = config.streams
        self.read = nn.Parameter(torch.eye(n)[site % n])
        self.mixing = nn.Parameter(torch.eye(n))
        self.write = nn.Parameter(torch.ones(n))

    def forward(self, rows: Tensor) -> tuple[Tensor, ...]:
        """For each token: read [..., n], mixing [..., n, n] from row to column, write [..., n]."""
        return _for_each_token(rows, self.read, self.mixing, self.write)


class _Dynamic(_Static):
    def __init__(self, config: ModelConfig, site: int) -> None:
        super().__init__(config, site)
        n, width = config.streams, config.d_model
        self.norm_weight = nn.Parameter(torch.ones(width))
        self.norm_bias = nn.Parameter(torch.zeros(width))
        self.read_map = nn.Parameter(torch.zeros(1, width))
        self.mixing_map = nn.Parameter(torch.zeros(n, width))
        self.write_map = nn.Parameter(torch.zeros(1, width))
        self.read_scale = nn.Parameter(torch.full((1,), 0.01))
        self.write_scale = nn.Parameter(torch.full((1,), 0.01))

    def forward(self, rows: Tensor) -> tuple[Tensor, ...]:
        return recomputed(self._coefficients, rows)

    def _coefficients(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rows = rows.to(exact_dtype(rows.dtype))
        normed = nn.functional.layer_norm(rows, rows.shape[-1:], self.norm_weight, self.norm_bias)
        maps = torch.cat((self.read_map, self.mixing_map, self.write_map))
        changes = torch.tanh(nn.functional.linear(normed, maps))
        read, mixing, write = torch.split(changes, [1, len(maps) - 2, 1], dim=-1)
        return (
            self.read + self.read_scale * read.squeeze(-1),
            self.mixing + self.read_scale * mixing,
            self.write + self.write_scale * write.squeeze(-1),
        )


class _Simplified(_Static):
    """`read` holds the logits."""

    def __init__(self, config: ModelConfig, site: int) -> None:
        super().__init__(config, site)
        self.read = nn.Parameter(torch.zeros(config.streams))
        self.write = nn.Parameter(torch.eye(config.streams)[0])

    def forward(self, rows: Tensor) -> tuple[Tensor, ...]:
        return _for_each_token(rows, torch.softmax(self.read, dim=0), self.mixing, self.write)


def _for_each_token(rows: Tensor, *coefficients: Tensor) -> tuple[Tensor, ...]:
    """Expanded: by a matrix that all tokens share, `matmul` would copy the streams to fold them together."""
    return tuple(c.expand(*rows.shape[:-2], *c.shape) for c in coefficients)


_FORMS = {"static": _Static, "dynamic": _Dynamic, "simplified": _Simplified}


class Stream(ResidualStream):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.streams, self.form = config.streams, config.connections
        form = _FORMS[self.form]
        self.sublayers: Sequence[_Static] = nn.ModuleList(  # type: ignore[assignment]
            form(config, site) for site in range(2 * config.layers)
        )

    def begin(self, embedding: Tensor) -> State:
        return Rows.copies(embedding, self.streams)

    def read(self, state: State, site: int) -> Tensor:
        read, mixing, write = self.sublayers[site](state.rows)
        x: Tensor = state.read(read.unsqueeze(-2))
        state.prepare(mixing.mT, write)
        return x.squeeze(-2)

    def write(self, state: State, site: int, output: Tensor) -> None:
        state.advance(output.unsqueeze(-2))

    def finish(self, state: State) -> Tensor:
        end: Tensor = state.rows.mean(-2) if self.form == "simplified" else state.rows.sum(-2)
        return end

    def drawn(self) -> Iterable[tuple[nn.Parameter, float]]:
        return [(p, SIMPLIFIED_STD) for p in self.parameters()] if self.form == "simplified" else []

    def draw_factor(self, name: str) -> float:
        if self.form == "simplified" or not name.endswith((".output.weight", ".down.weight")):
            return 1.0
        return 1 / math.sqrt(self.streams)

    def undecayed(self) -> Iterable[nn.Parameter]:
        if self.form == "simplified":
            return []
        return [p for sublayer in self.sublayers for p in (sublayer.read, sublayer.mixing, sublayer.write)]

    def diagnose(self, state: State, site: int) -> dict[str, Tensor]:
        """The coefficients of the sublayer at `site`, for each token in the dynamic form."""
        return dict(zip(DIAGNOSTICS, self.sublayers[site](state.rows), strict=True))
