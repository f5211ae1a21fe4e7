"""Value residual (ResFormer, arXiv 2410.17897): later attention mixes in the values of the first.

In block l ≥ 1 the value becomes λ_1 V_l + λ_2 V_0. `value_mix: constant` keeps both at 0.5; `learned` trains
a pair for each block, from 0.5. The running sum is the additive stream's.

Start: no baseline's, because the values are mixed from the first step; with λ = (1, 0) the additive one.

Assumption: weight decay spares the pairs.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headcount.trainer.config import ModelConfig
from headcount.trainer.model.attention import Attention
from headcount.trainer.residuals.interface import ResidualStream, State

READS = ("value_mix",)
DIAGNOSTICS = ("value_mix",)


def label(model: ModelConfig) -> str:
    return f"value residual, {model.value_mix}"


def added_parameters(model: ModelConfig) -> int:
    return 2 * (model.layers - 1) if model.value_mix == "learned" else 0


def added_flops_per_token(model: ModelConfig) -> float:
    """Two scaled values of the KV heads' width a block after the first, and twice as much backward."""
    return 12.0 * (model.layers - 1) * model.kv_heads * model.width_of_head


def kept_per_token(model: ModelConfig) -> float:
    """The values before they are mixed, where their factors are learned."""
    width = model.kv_heads * model.width_of_head
    return width * (model.layers - 1) if model.value_mix == "learned" else 0.0


@dataclass
class _Sum:
    x: Tensor
    first_value: Tensor | None = None


class Stream(ResidualStream):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.learned = config.value_mix == "learned"
        pairs = config.layers - 1 if self.learned else 0
        self.pairs = nn.ParameterList(torch.full((2,), 0.5) for _ in range(pairs))

    def begin(self, embedding: Tensor) -> State:
        return _Sum(embedding)

    def read(self, state: State, site: int) -> Tensor:
        x: Tensor = state.x
        return x

    def attend(self, state: State, site: int, attention: Attention, rotation: Tensor) -> Tensor:
        x = attention.norm(self.read(state, site))
        query, key, value = attention.project(x, x, x)
        if site == 0:
            state.first_value = value
        else:
            own, first = self._pair(site)
            value = own * value + first * state.first_value
        return attention.mix(query, key, value, rotation)

    def write(self, state: State, site: int, output: Tensor) -> None:
        state.x = state.x + output

    def finish(self, state: State) -> Tensor:
        return self.read(state, -1)

    def undecayed(self) -> Iterable[nn.Parameter]:
        return list(self.pairs)

    def diagnose(self, state: State, site: int) -> dict[str, Tensor]:
        """The pair (λ_1, λ_2) at attention sites after the first."""
        return {"value_mix": torch.stack(self._pair(site))} if site >= 2 and site % 2 == 0 else {}

    def _pair(self, site: int) -> tuple[Tensor, Tensor]:
        pair = self.pairs[site // 2 - 1] if self.learned else torch.tensor((0.5, 0.5))
        return pair[0], pair[1]
