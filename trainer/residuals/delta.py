"""Delta attention residuals (arXiv 2605.18855): the additive stream, with routing added to what is read.

    x_s = p + α_s · Σ a_i δ_i,        p ← p + f_s(x_s)

p is the running sum, and what the head reads. The sources δ of a site are a learned vector of its own, at
first zero (the null source), the embedding, and every output before it (`block_size` 1) or one change
p_n − p_{n−1} for each whole block. The released code subtracts the previously stored *change* at a block's
end, so that its later sources are alternating sums: a bug, by the paper's text, and not followed.

Start: every gate α_s is 0, so the model is the additive one bit for bit. At first only α gets a gradient.

Assumptions: the block that runs is no source, since p holds it; the embedding is a source from site 0 on.
Weight decay spares the queries, key-norm weights, null sources and gates, as the released code does.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from headcount.kernels import Choice, DeltaHistory, with_launch
from headcount.kernels.delta_history import choose_for_delta
from headcount.trainer.config import ModelConfig
from headcount.trainer.residuals.interface import State
from headcount.trainer.residuals.routed import HistoryStream

READS = ("routing_heads", "query_init", "block_size", "logit_scale", "logit_scale_form")
DIAGNOSTICS = ("weights", "gate")
PROBED = True


def label(model: ModelConfig) -> str:
    sources = "by layer" if model.block_size == 1 else f"by blocks of {model.block_size}"
    return f"delta attention residuals {sources}, H = {model.routing_heads}"


def misfit(model: ModelConfig) -> tuple[str, str] | None:
    if model.norm_eps == 0:
        return "norm_eps", "got 0; delta norms null sources that start at zero: expected more than 0"
    return None


def added_parameters(model: ModelConfig) -> int:
    """A query, a key-norm weight, a null source, a gate and perhaps learned scales for each sublayer."""
    scales = model.routing_heads if model.logit_scale_form == "per_head" else 0
    return 2 * model.layers * (3 * model.d_model + 1 + scales)


def added_flops_per_token(model: ModelConfig) -> float:
    """Reads as those of `mhar`, with the null source among the N, and the gated sum (2·d, forward)."""
    sources = sum(2 + site // model.block_size for site in range(2 * model.layers))
    return 18.0 * model.d_model * sources + 6.0 * model.d_model * 2 * model.layers


def kept_per_token(model: ModelConfig) -> float:
    """The sources, the reads before they are gated, and what each keeps of each of its sources."""
    size, sites = model.block_size, 2 * model.layers
    sources = sum(2 + site // size for site in range(sites))
    changes = (sites - 1) // size
    return (changes + sites + 1) * model.d_model + (model.routing_heads + 1) * sources


class Stream(HistoryStream):
    def __init__(self, config: ModelConfig) -> None:
        sites = 2 * config.layers
        super().__init__(config, sites)
        self.block_size = config.block_size
        self.nulls = nn.ParameterList(torch.zeros(config.d_model) for _ in range(sites))
        self.gates = nn.ParameterList(torch.zeros(1) for _ in range(sites))

    def begin(self, embedding: Tensor) -> State:
        history = DeltaHistory(
            [self.scaled_query(site) for site in range(len(self.queries))],
            list(self.key_weights),
            list(self.nulls),
            list(self.gates),
            self.heads,
            eps=self.eps,
            logit_scale=self.logit_scale,
            block_size=self.block_size,
        )
        history.write(embedding)
        return history

    def routing(self, source: Tensor) -> Choice | None:
        return with_launch(choose_for_delta("auto", source, self.heads), source, self.heads)

    def undecayed(self) -> Iterable[nn.Parameter]:
        return list(self.parameters())

    def diagnose(self, state: State, site: int) -> dict[str, Tensor]:
        return {"weights": self.weights(state.sources_of(site), site), "gate": self.gates[site]}

    def sources(self, state: State, site: int) -> list[Tensor]:
        return list(state.sources_of(site))
