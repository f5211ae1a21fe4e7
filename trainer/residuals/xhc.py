"""xHC, expanded hyper-connections (arXiv 2607.14530), after the published description: N = `streams` residual
streams of which each token mixes and writes only k.

For a token with streams X [N, d] and u = vec(X), for each sublayer f:

    s = σ(LN(u) W_r)                          router; A = m fixed streams and the k − m others of highest s
    pre = σ(a_pre rms(u) W_pre + b_pre)       the sublayer reads Σ_i pre_i x_i, over all N streams
    v = rms(vec(X_A))
    res = Sinkhorn(a_res v W_res + b_res)     [k, k], in float32, rows above 1 divided by their sum
    post = 2σ(a_post v W_post + b_post)       [k, K]
    X_A ← res X_A + p · (post Y)              p is 1 for fixed streams and s for routed ones

The other streams stay as they are. Y [K, d] is the output y alone after attention; after the MLP it is y and
causal depthwise convolutions of y over 4, 8 and 12 tokens, each less its projections on those before. At the
end the streams are summed. k = min(4, N/2) and m = ⌊k/2⌋, which gives all published sizes. Every a is 0.01.

Start: no baseline's, since the streams are written unequally from the first step.

Assumptions (no start is published but a's): W_r ~ N(0, `init_std`²), so that the router tells streams apart;
W_pre, W_res, W_post = 0; b_pre = +2 for stream (site mod N) and −2 for the others; b_res = 4·I; b_post = 0
for y and −4 for its convolutions, which start as averages; all streams start as the embedding; the norms have
no weights, and eps `norm_eps` (LN: 1e-5); the fixed streams are the first m; the projections divide by
|.|² + 1e-6 · d; the form is the full one, not Flash; weight decay spares a and b.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headcount.kernels.definition import exact_dtype
from headcount.trainer.config import ModelConfig
from headcount.trainer.residuals.interface import ResidualStream, State
from headcount.trainer.residuals.mixing import recomputed, sinkhorn

READS = ("streams",)
DIAGNOSTICS = ("read", "mixing", "write", "active")

KERNELS = (4, 8, 12)
PROJECTION_EPS = 1e-6


def label(model: ModelConfig) -> str:
    active = min(4, model.streams // 2)
    return f"xHC, after the published description, N = {model.streams}, {active} active"


def misfit(model: ModelConfig) -> tuple[str, str] | None:
    if model.streams < 2:
        return "streams", f"got {model.streams}; xhc needs 2 or more"
    return None


def added_parameters(model: ModelConfig) -> int:
    """(4N² + 2k³ + k² + 4k² + 24)·d a layer, with the biases and scales of its two sublayers."""
    n, k = model.streams, min(4, model.streams // 2)
    maps = (4 * n * n + 2 * k**3 + 5 * k * k + 24) * model.d_model
    return model.layers * (maps + 2 * (n + k * k + 3) + 5 * k)


def added_flops_per_token(model: ModelConfig) -> float:
    """Products with the maps, 2·d for each coefficient, and the convolutions; thrice with backward."""
    n, k, width = model.streams, min(4, model.streams // 2), model.d_model
    maps = (4 * n * n + 2 * k**3 + 5 * k * k + 24) * width
    coefficients = (2 * n + 2 * k * k + 5 * k) * width
    return 6.0 * model.layers * (maps + coefficients)


def kept_per_token(model: ModelConfig) -> float:
    """N states for each sublayer, the active ones, its output, Y after the MLP, and the coefficients."""
    n, k, width = model.streams, min(4, model.streams // 2), model.d_model
    vectors = 2 * (n + k + 1) + 4
    coefficients = 2 * (n + k * k + k * n) + 5 * k
    return model.layers * (vectors * width + coefficients) - (n - 1) * width


@dataclass
class _Rows:
    """The streams [..., N, d], and what awaits the output of the sublayer that read."""

    rows: Tensor
    mixing: Tensor | None = None
    write: Tensor | None = None
    active: Tensor | None = None


class _Sublayer(nn.Module):
    """One sublayer's coefficients, and its output's augmentation."""

    def __init__(self, config: ModelConfig, site: int) -> None:
        super().__init__()
        n, width = config.streams, config.d_model
        self.k = min(4, n // 2)
        self.fixed, self.eps = self.k // 2, config.norm_eps
        kernels = KERNELS if site % 2 else ()
        self.components = 1 + len(kernels)
        self.kernels = nn.ParameterList(torch.full((width, size), 1 / size) for size in kernels)
        self.router = nn.Parameter(torch.zeros(n, n * width))
        self.read_map = nn.Parameter(torch.zeros(n, n * width))
        self.mixing_map = nn.Parameter(torch.zeros(self.k**2, self.k * width))
        self.write_map = nn.Parameter(torch.zeros(self.k * self.components, self.k * width))
        self.scales = nn.Parameter(torch.full((3,), 0.01))
        self.read_bias = nn.Parameter(4 * torch.eye(n)[site % n] - 2)
        self.mixing_bias = nn.Parameter(4 * torch.eye(self.k).flatten())
        temporal = torch.full((self.k, self.components - 1), -4.0)
        self.write_bias = nn.Parameter(torch.cat((torch.zeros(self.k, 1), temporal), -1).flatten())

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Read [..., N], mixing [..., k, k], write [..., k, K], the active streams one-hot [..., k, N]."""
        exact = rows.to(exact_dtype(rows.dtype))
        flat = exact.flatten(-2)
        routing = nn.functional.layer_norm(flat, flat.shape[-1:])
        scores = torch.sigmoid(nn.functional.linear(routing, self.router))
        active = self._active(scores)
        normed = nn.functional.rms_norm(flat, flat.shape[-1:], eps=self.eps)
        chosen = (active @ exact).flatten(-2)
        chosen = nn.functional.rms_norm(chosen, chosen.shape[-1:], eps=self.eps)
        linear, (a_read, a_mixing, a_write) = nn.functional.linear, self.scales
        read = torch.sigmoid(a_read * linear(normed, self.read_map) + self.read_bias)
        logits = a_mixing * linear(chosen, self.mixing_map) + self.mixing_bias
        mixing = sinkhorn(logits.view(*logits.shape[:-1], self.k, self.k).mT).mT
        mixing = mixing / mixing.sum(-1, keepdim=True).clamp(min=1)
        write = 2 * torch.sigmoid(a_write * linear(chosen, self.write_map) + self.write_bias)
        share = (active * scores.unsqueeze(-2)).sum(-1)
        share = torch.cat((torch.ones_like(share[..., : self.fixed]), share[..., self.fixed :]), -1)
        return read, mixing, share.unsqueeze(-1) * write.view(*write.shape[:-1], self.k, -1), active

    def augmented(self, output: Tensor) -> Tensor:
        """Y [..., tokens, K, d]: the output, and what its convolutions over earlier tokens add to it."""
        exact = output.to(exact_dtype(output.dtype))
        components = [exact]
        for kernel in self.kernels:
            padded = nn.functional.pad(exact.mT, (kernel.shape[-1] - 1, 0))
            component = nn.functional.conv1d(padded, kernel.unsqueeze(1), groups=len(kernel)).mT
            for earlier in components:
                norm = earlier.square().sum(-1, keepdim=True) + PROJECTION_EPS * earlier.shape[-1]
                component = component - (component * earlier).sum(-1, keepdim=True) / norm * earlier
            components.append(component)
        return torch.stack(components, dim=-2).to(output.dtype)

    def _active(self, scores: Tensor) -> Tensor:
        routed = torch.topk(scores.detach()[..., self.fixed :], self.k - self.fixed).indices + self.fixed
        fixed = torch.arange(self.fixed, device=scores.device).expand(*routed.shape[:-1], -1)
        streams = torch.arange(scores.shape[-1], device=scores.device)
        return (torch.cat((fixed, routed), -1).unsqueeze(-1) == streams).to(scores.dtype)


class Stream(ResidualStream):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.streams, self.std = config.streams, config.init_std
        self.sublayers: Sequence[_Sublayer] = nn.ModuleList(  # type: ignore[assignment]
            _Sublayer(config, site) for site in range(2 * config.layers)
        )

    def begin(self, embedding: Tensor) -> State:
        *others, width = embedding.shape
        return _Rows(embedding.unsqueeze(-2).expand(*others, self.streams, width))

    def read(self, state: State, site: int) -> Tensor:
        coefficients = recomputed(self.sublayers[site], state.rows)
        read, state.mixing, state.write, state.active = (c.to(state.rows.dtype) for c in coefficients)
        x: Tensor = read.unsqueeze(-2) @ state.rows
        return x.squeeze(-2)

    def write(self, state: State, site: int, output: Tensor) -> None:
        sublayer = self.sublayers[site]
        outputs = recomputed(sublayer.augmented, output) if site % 2 else output.unsqueeze(-2)
        chosen = state.mixing @ (state.active @ state.rows) + state.write @ outputs
        is_active = state.active.sum(-2).unsqueeze(-1) > 0
        state.rows = torch.where(is_active, state.active.mT @ chosen, state.rows)

    def finish(self, state: State) -> Tensor:
        end: Tensor = state.rows.sum(-2)
        return end

    def drawn(self) -> Iterable[tuple[nn.Parameter, float]]:
        return [(sublayer.router, self.std) for sublayer in self.sublayers]

    def undecayed(self) -> Iterable[nn.Parameter]:
        names = ("scales", "read_bias", "mixing_bias", "write_bias")
        return [getattr(sublayer, name) for sublayer in self.sublayers for name in names]

    def diagnose(self, state: State, site: int) -> dict[str, Tensor]:
        """The coefficients of the sublayer at `site`, for each token."""
        return dict(zip(DIAGNOSTICS, self.sublayers[site](state.rows), strict=True))
