"""LAuReL, learned augmented residual layers (arXiv 2411.07501 v4). `laurel_form` chooses

    rw      x' = α f + β x                  (α, β) = 2 · softmax of two logits
    lr      x' = f + x + B A x              A, B of rank `laurel_rank` = r
    pa      x' = f + x + Σ_{j<k} γ_j B A x_{i−j}     over the last k = `laurel_past` states, x_i among them
    rw_lr   x' = α f + β (x + B A x)

for each sublayer f of its own. B starts at 0 and A_ij at 1/√(r·d) where i mod r = j, both as published for
language models.

Start: the additive stream bit for bit (the two logits are equal, B is 0).

Assumptions: α and β are bounded by a softmax, doubled so that they start at 1 (the paper leaves the bound
open); γ starts at 1, since its start is not published and from 0 neither γ nor B would ever move; `pa` uses
the low-rank map, one A and B a sublayer for all past states; weight decay applies to all of it.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from headcount.trainer.config import ModelConfig
from headcount.trainer.residuals.interface import ResidualStream, State
from headcount.trainer.residuals.mixing import weighted_sum

READS = ("laurel_form", "laurel_rank", "laurel_past")
DIAGNOSTICS = ("residual_weights", "past_weights")


def label(model: ModelConfig) -> str:
    form = {"rw": "RW", "lr": "LR", "pa": "PA", "rw_lr": "RW+LR"}[model.laurel_form]
    rank = "" if model.laurel_form == "rw" else f", rank {model.laurel_rank}"
    past = f", last {model.laurel_past} states" if model.laurel_form == "pa" else ""
    return f"LAuReL-{form}{rank}{past}"


def added_parameters(model: ModelConfig) -> int:
    """The first sublayers have fewer past states than k."""
    sites = 2 * model.layers
    weights = 2 * sites if "rw" in model.laurel_form else 0
    low_rank = 2 * model.laurel_rank * model.d_model * sites if model.laurel_form != "rw" else 0
    past = sum(min(site + 1, model.laurel_past) for site in range(sites)) if model.laurel_form == "pa" else 0
    return weights + low_rank + past


def added_flops_per_token(model: ModelConfig) -> float:
    """Two scaled vectors, two products of d·r, or a sum of k vectors; twice as much backward."""
    sites, width = 2 * model.layers, model.d_model
    scaled = 12.0 * width * sites if "rw" in model.laurel_form else 0.0
    products = 12.0 * width * model.laurel_rank * sites if model.laurel_form != "rw" else 0.0
    past = sum(min(site + 1, model.laurel_past) for site in range(sites)) if model.laurel_form == "pa" else 0
    return scaled + products + 6.0 * width * past


def kept_per_token(model: ModelConfig) -> float:
    """The outputs that α scales, and for the low-rank map its inner values and, in `pa`, its input."""
    sites, width = 2 * model.layers, model.d_model
    return {
        "rw": sites * width,
        "lr": sites * model.laurel_rank,
        "pa": sites * (model.laurel_rank + width),
        "rw_lr": sites * (2 * width + model.laurel_rank),
    }[model.laurel_form]


class _Sublayer(nn.Module):
    """What one sublayer's output and the states before it become."""

    def __init__(self, config: ModelConfig, site: int) -> None:
        super().__init__()
        form, width, rank = config.laurel_form, config.d_model, config.laurel_rank
        self.logits = nn.Parameter(torch.zeros(2)) if "rw" in form else None
        self.past = nn.Parameter(torch.ones(min(site + 1, config.laurel_past))) if form == "pa" else None
        self.down = self.up = None
        if form != "rw":
            places = torch.arange(width) % rank == torch.arange(rank).unsqueeze(-1)
            self.down = nn.Parameter(places / math.sqrt(rank * width))
            self.up = nn.Parameter(torch.zeros(width, rank))

    def residual_weights(self) -> Tensor | None:
        """(α, β)."""
        return None if self.logits is None else 2 * torch.softmax(self.logits, dim=0)

    def forward(self, states: list[Tensor], output: Tensor) -> Tensor:
        """states: the past states that are read, the present one last."""
        x = states[-1]
        if self.down is not None and self.up is not None:
            source = x if self.past is None else weighted_sum(states[::-1], self.past)
            inner = nn.functional.linear(source, self.down.to(x.dtype))
            x = x + nn.functional.linear(inner, self.up.to(x.dtype))
        weights = self.residual_weights()
        if weights is None:
            return x + output
        alpha, beta = weights.to(x.dtype)
        mixed: Tensor = alpha * output + beta * x
        return mixed


class Stream(ResidualStream):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.kept = config.laurel_past if config.laurel_form == "pa" else 1
        self.sublayers: Sequence[_Sublayer] = nn.ModuleList(  # type: ignore[assignment]
            _Sublayer(config, site) for site in range(2 * config.layers)
        )

    def begin(self, embedding: Tensor) -> State:
        return [embedding]

    def read(self, state: State, site: int) -> Tensor:
        x: Tensor = state[-1]
        return x

    def write(self, state: State, site: int, output: Tensor) -> None:
        state.append(self.sublayers[site](state, output))
        del state[: -self.kept]

    def finish(self, state: State) -> Tensor:
        return self.read(state, -1)

    def diagnose(self, state: State, site: int) -> dict[str, Tensor]:
        """(α, β) and γ, newest state first, of the sublayer at `site`, as far as its form has them."""
        sublayer = self.sublayers[site]
        figures = {"residual_weights": sublayer.residual_weights(), "past_weights": sublayer.past}
        return {name: figure for name, figure in figures.items() if figure is not None}
