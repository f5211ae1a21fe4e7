"""Multi-head attention residuals aligned to the KV groups of attention (arXiv 2607.27230, appendix, MHAR-HW).

An attention site has a query of the whole width for each of the G = `kv_heads` groups. Group g scores and
mixes the sources over their full width; after the sublayer's one input norm, its KV head and the query heads
that read it are projected from mixture g alone. MLP sites and the read before the head are those of `mhar`.
With one group and one routing head the two streams are the same.

Assumption: the groups of a site share its key-norm weight (the published count adds (G − 1)·d a layer).
Start: as `mhar`, the additive stream's up to the norms' eps.
"""

import torch
from torch import Tensor, nn

from headcount.kernels import route_groups, routing_weights
from headcount.trainer.config import ModelConfig
from headcount.trainer.model.attention import Attention
from headcount.trainer.residuals.interface import State
from headcount.trainer.residuals.routed import RoutedStream

READS = ("routing_heads", "query_init", "logit_scale", "logit_scale_form", "query_decay")
DIAGNOSTICS = ("weights",)


def label(model: ModelConfig) -> str:
    return f"MHAR-HW, {model.kv_heads} groups, H = {model.routing_heads}"


def added_parameters(model: ModelConfig) -> int:
    """As `mhar`, and a query more for each further group of each attention site."""
    learned = model.logit_scale_form == "per_head"
    scales = model.layers * (model.kv_heads + model.routing_heads) + model.routing_heads if learned else 0
    queries = model.layers * (model.kv_heads + 1) + 1
    return model.d_model * (queries + 2 * model.layers + 1) + scales


def added_flops_per_token(model: ModelConfig) -> float:
    """As `mhar`, with an attention site's reads once for each group."""
    attention = sum(site + 1 for site in range(0, 2 * model.layers, 2))
    others = sum(site + 1 for site in range(1, 2 * model.layers, 2)) + 2 * model.layers + 1
    return 18.0 * model.d_model * (model.kv_heads * attention + others)


def kept_per_token(model: ModelConfig) -> float:
    """The sources, the further groups' mixtures with what their norm keeps, and the reads' weights."""
    attention = sum(site + 1 for site in range(0, 2 * model.layers, 2))
    others = sum(site + 1 for site in range(1, 2 * model.layers, 2)) + 2 * model.layers + 1
    mixtures = 3 * model.layers * (model.kv_heads - 1) * model.d_model
    sources = (2 * model.layers + 1) * model.d_model
    return sources + mixtures + 2 * model.kv_heads * attention + (model.routing_heads + 1) * others


class Stream(RoutedStream):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, 2 * config.layers + 1)
        groups = config.kv_heads
        for site in range(0, 2 * config.layers, 2):
            self.queries[site] = nn.Parameter(torch.zeros(groups, config.d_model))
            if self.logit_scales:
                self.logit_scales[site] = nn.Parameter(torch.full((groups,), config.logit_scale))

    def begin(self, embedding: Tensor) -> State:
        return [embedding]

    def read(self, state: State, site: int) -> Tensor:
        """[..., d_model], or a mixture for each group at attention sites: [..., kv_heads, d_model]."""
        if site % 2 or site == len(self.queries) - 1:
            return self.route(state, site)
        key_weight, scale = self.key_weights[site], self.logit_scale
        return route_groups(state, self._groups(site), key_weight, eps=self.eps, logit_scale=scale)

    def attend(self, state: State, site: int, attention: Attention, rotation: Tensor) -> Tensor:
        x = attention.norm(self.read(state, site))
        return attention.mix(*attention.project(x, x, x), rotation)

    def write(self, state: State, site: int, output: Tensor) -> None:
        state.append(output)

    def finish(self, state: State) -> Tensor:
        return self.read(state, len(self.queries) - 1)

    def diagnose(self, state: State, site: int) -> dict[str, Tensor]:
        if site % 2 or site == len(self.queries) - 1:
            return {"weights": self.weights(state, site)}
        key_weight, scale = self.key_weights[site], self.logit_scale
        groups = [
            routing_weights(state, q, key_weight, 1, eps=self.eps, logit_scale=scale)
            for q in self._groups(site)
        ]
        return {"weights": torch.cat(groups, dim=-1)}

    def _groups(self, site: int) -> Tensor:
        queries: Tensor = self.queries[site]
        return queries * self.logit_scales[site].unsqueeze(-1) if self.logit_scales else queries
