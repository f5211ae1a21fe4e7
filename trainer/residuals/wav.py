"""WAV (arXiv 2606.06564 v1), after the published description: attention residuals over blocks, with two
details a block.

A block of `block_size` S sublayers leaves three sources: the sum of its outputs; its phase detail, attention
outputs minus MLP outputs; its split detail, first half minus second half. Details are rescaled to the sum's
rms by a factor without gradient, and their logits carry a bias b that is learned, from a negative start:

    weights = softmax over depth of (logits of `mhar` + b of the source's kind, 0 for sums and the embedding)

Start: no baseline's, since details are mixed in from the first step.

Assumptions: the bias is one scalar for each kind of detail and site, shared by the heads, starting at
`detail_bias` (its published value is not known) and spared by weight decay; halves, keys, the running block,
the read before the head and the queries' start as in `haares`.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from headcount.trainer.config import ModelConfig
from headcount.trainer.residuals.details import DetailedBlocks, phase_sign, split_sign
from headcount.trainer.residuals.interface import State
from headcount.trainer.residuals.mixing import mix_by_head, recomputed
from headcount.trainer.residuals.routed import RoutedStream

READS = (
    "routing_heads",
    "query_init",
    "block_size",
    "logit_scale",
    "logit_scale_form",
    "query_decay",
    "detail_bias",
)
DIAGNOSTICS = ("weights",)


def label(model: ModelConfig) -> str:
    form = f"blocks of {model.block_size}, H = {model.routing_heads}, bias from {model.detail_bias:g}"
    return f"WAV, after the published description, {form}"


def added_parameters(model: ModelConfig) -> int:
    """A query, a key-norm weight, two biases and perhaps learned scales for each of 2·layers + 1 sites."""
    scales = model.routing_heads if model.logit_scale_form == "per_head" else 0
    return (2 * model.d_model + 2 + scales) * (2 * model.layers + 1)


def added_flops_per_token(model: ModelConfig) -> float:
    """Reads as those of `mhar`; a detail's rescaling (5·d) is counted with the site that it is read at."""
    size, sites = model.block_size, 2 * model.layers + 1
    sources = sum(1 + 3 * (site // size + (site % size > 0)) for site in range(sites))
    return 18.0 * model.d_model * sources + 10.0 * model.d_model * (sites - 1)


def kept_per_token(model: ModelConfig) -> float:
    """Three sources a site with the embedding's one: a read keeps nothing else, and is computed again."""
    return (3 * (2 * model.layers + 1) - 2) * model.d_model


class Stream(RoutedStream):
    def __init__(self, config: ModelConfig) -> None:
        sites = 2 * config.layers + 1
        super().__init__(config, sites)
        self.block_size = config.block_size
        self.biases = nn.ParameterList(torch.full((2,), config.detail_bias) for _ in range(sites))

    def begin(self, embedding: Tensor) -> State:
        signs = (phase_sign, split_sign(self.block_size))
        return DetailedBlocks(self.block_size, signs, self.eps, [embedding])

    def read(self, state: State, site: int) -> Tensor:
        def mixed(*sources: Tensor) -> Tensor:
            return mix_by_head(sources, self._biased_weights(list(sources), site))

        return recomputed(mixed, *state.sources())

    def write(self, state: State, site: int, output: Tensor) -> None:
        state.add(site, output)

    def finish(self, state: State) -> Tensor:
        return self.read(state, len(self.queries) - 1)

    def undecayed(self) -> Iterable[nn.Parameter]:
        return [*super().undecayed(), *self.biases]

    def routing(self, source: Tensor) -> None:
        return None  # its weights are not depth routing's

    def diagnose(self, state: State, site: int) -> dict[str, Tensor]:
        return {"weights": self._biased_weights(state.sources(), site)}

    def _biased_weights(self, sources: list[Tensor], site: int) -> Tensor:
        weights = self.weights(sources, site)
        of_block = nn.functional.pad(self.biases[site], (1, 0)).to(weights.dtype)
        bias = torch.cat((of_block[:1], of_block.repeat(len(sources) // 3)))
        factors = (bias - bias.max().detach()).exp().view(-1, *(1,) * (weights.dim() - 1))
        return weights * factors / (weights * factors).sum(0)
