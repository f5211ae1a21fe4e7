"""MUDDFormer (arXiv 2502.12170): dynamic dense connections between blocks, one for each of four ways.

After block l, with X the state it leaves and S_j = norm_j(X_j) the normed states so far, embedding first:

    A = GELU(rms(X) W_1) W_2 + a            a weight for each way and source of each token
    way c reads X + Σ_j A_cj S_j            for c = query, key, value of the next attention
    residual:   X + post_norm(Σ_j A_rj S_j)

Query, key and value inputs have norms of their own; after the last block only the residual way is left. This
is the form with pre and post norm, the default of the authors' medium model: the plain one has been seen to
diverge at 24 layers. W_1 is [d, 4(l + 2)], drawn from N(0, 1/d); W_2 and a start at 0 (in the plain form a
would be one-hot), the norms of the sources at 1, the post norm's weight at 0.001.

Start: the additive stream bit for bit.

Assumptions: the feed-forward width is the same in every block (the published one grows with depth), so that
the shared weights are the control's; the last block's MLP has 4(l + 2) hidden units as the others have;
GELU is the exact one; weight decay applies to all of it.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headcount.trainer.config import ModelConfig
from headcount.trainer.model.attention import Attention
from headcount.trainer.model.layers import Linear, RMSNorm
from headcount.trainer.residuals.interface import ResidualStream, State
from headcount.trainer.residuals.mixing import weighted_sum

READS = ()
DIAGNOSTICS = ("depth_weights",)


def label(model: ModelConfig) -> str:
    return "MUDDFormer, pre and post norm"


def misfit(model: ModelConfig) -> tuple[str, str] | None:
    if model.norm_eps == 0:
        return "norm_eps", "got 0; muddformer norms sums that start at zero: expected more than 0"
    return None


def added_parameters(model: ModelConfig) -> int:
    """Norms for key, value, source and post norm of each block and the embedding's; W_1, W_2 and a."""
    layers, width = model.layers, model.d_model
    count = (4 * layers + 1) * width
    for sources in range(2, layers + 2):
        weights = (4 if sources < layers + 1 else 1) * sources
        count += 4 * sources * width + 4 * sources * weights + weights
    return count


def added_flops_per_token(model: ModelConfig) -> float:
    """The products with W_1 and W_2, and 2·d for each weight; twice as much backward."""
    layers, width = model.layers, model.d_model
    total = 0.0
    for sources in range(2, layers + 2):
        weights = (4 if sources < layers + 1 else 1) * sources
        total += 6.0 * (4 * sources * width + 4 * sources * weights + weights * width)
    return total


def kept_per_token(model: ModelConfig) -> float:
    """A block's state, the ways and sums with what their norms keep, the weights and their MLP's values."""
    layers = model.layers
    kept = 12.0 * layers * model.d_model
    for sources in range(2, layers + 2):
        kept += 8 * sources + (4 if sources < layers + 1 else 1) * sources
    return kept


@dataclass
class _Ways:
    """The residual state, the normed states, and of the newest block the attention inputs and the weights."""

    x: Tensor
    sources: list[Tensor]
    inputs: tuple[Tensor, Tensor, Tensor] | None = None
    weights: Tensor | None = None


class _Dense(nn.Module):
    """What follows one block: from its state to the four ways, or to one after the last block."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.sources = layer + 2
        self.ways = 4 if layer < config.layers - 1 else 1
        self.eps = config.norm_eps
        self.hidden = Linear(config.d_model, 4 * self.sources)
        self.output = Linear(4 * self.sources, self.ways * self.sources)
        nn.init.zeros_(self.hidden.weight)
        nn.init.zeros_(self.output.weight)
        self.static = nn.Parameter(torch.zeros(self.ways, self.sources))
        self.post_norm = RMSNorm(config.d_model, config.norm_eps)
        nn.init.constant_(self.post_norm.weight, 0.001)

    def weights(self, x: Tensor) -> Tensor:
        """[..., ways, sources]; the last way is the residual one."""
        normed = nn.functional.rms_norm(x, x.shape[-1:], eps=self.eps)
        dynamic: Tensor = self.output(nn.functional.gelu(self.hidden(normed)))
        return dynamic.view(*x.shape[:-1], self.ways, self.sources) + self.static.to(x.dtype)

    def forward(self, x: Tensor, sources: list[Tensor], weights: Tensor) -> list[Tensor]:
        """The inputs of query, key and value, but for the last block, and the residual way."""
        *inputs, residual = (weighted_sum(sources, w) for w in weights.unbind(-2))
        return [*(x + way for way in inputs), x + self.post_norm(residual)]


class Stream(ResidualStream):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        layers, width, eps = config.layers, config.d_model, config.norm_eps
        self.w1_std = 1 / math.sqrt(width)
        self.key_norms = nn.ModuleList(RMSNorm(width, eps) for _ in range(layers))
        self.value_norms = nn.ModuleList(RMSNorm(width, eps) for _ in range(layers))
        self.source_norms = nn.ModuleList(RMSNorm(width, eps) for _ in range(layers + 1))
        self.dense: Sequence[_Dense] = nn.ModuleList(  # type: ignore[assignment]
            _Dense(config, layer) for layer in range(layers)
        )

    def begin(self, embedding: Tensor) -> State:
        return _Ways(embedding, [self.source_norms[0](embedding)])

    def read(self, state: State, site: int) -> Tensor:
        """The residual way; at attention sites after the first, what `attend` reads differs."""
        x: Tensor = state.x
        return x

    def attend(self, state: State, site: int, attention: Attention, rotation: Tensor) -> Tensor:
        layer = site // 2
        query, key, value = state.inputs or (state.x, state.x, state.x)
        normed = attention.norm(query), self.key_norms[layer](key), self.value_norms[layer](value)
        return attention.mix(*attention.project(*normed), rotation)

    def write(self, state: State, site: int, output: Tensor) -> None:
        state.x = state.x + output
        if site % 2:
            dense = self.dense[site // 2]
            state.sources.append(self.source_norms[site // 2 + 1](state.x))
            state.weights = dense.weights(state.x)
            *inputs, state.x = dense(state.x, state.sources, state.weights)
            state.inputs = tuple(inputs)

    def finish(self, state: State) -> Tensor:
        return self.read(state, -1)

    def diagnose(self, state: State, site: int) -> dict[str, Tensor]:
        """The weights [..., ways, sources] that made what is read; none before the first block has ended."""
        return {"depth_weights": state.weights} if site >= 2 and site % 2 == 0 else {}

    def drawn(self) -> Iterable[tuple[nn.Parameter, float]]:
        return [(dense.hidden.weight, self.w1_std) for dense in self.dense]
