"""HAARES (arXiv 2606.06564 v2), after the published description: attention residuals over blocks, with one
detail a block.

A block of `block_size` S sublayers leaves two sources: the sum of its outputs, and its half-split detail, the
first half's outputs minus the second half's, rescaled to the sum's rms by a factor without gradient. The
running block has both as well. All sources share one softmax over depth, that of `mhar`.

Start: no baseline's, since details are mixed in from the first step.

Assumptions: the first half of a block are its first ⌊S/2⌋ outputs, so that a running block before its half
has a detail equal to its sum; keys are made of the rescaled detail; the details have no logit bias (that of
the earlier version, `wav`, is not what drives the gain, by the paper's ablation); the read before the head is
one more site; queries start as in `mhar`.
"""

from torch import Tensor

from headcount.trainer.config import ModelConfig
from headcount.trainer.residuals.details import DetailedBlocks, split_sign
from headcount.trainer.residuals.interface import State
from headcount.trainer.residuals.routed import RoutedStream

READS = ("routing_heads", "query_init", "block_size", "logit_scale", "logit_scale_form", "query_decay")
DIAGNOSTICS = ("weights",)
PROBED = True


def label(model: ModelConfig) -> str:
    form = f"blocks of {model.block_size}, H = {model.routing_heads}"
    return f"HAARES, after the published description, {form}"


def added_parameters(model: ModelConfig) -> int:
    """A query, a key-norm weight and perhaps learned scales for each of the 2·layers + 1 sites."""
    scales = model.routing_heads if model.logit_scale_form == "per_head" else 0
    return (2 * model.d_model + scales) * (2 * model.layers + 1)


def added_flops_per_token(model: ModelConfig) -> float:
    """Reads as those of `mhar`; a detail's rescaling (5·d) is counted with the site that it is read at."""
    size, sites = model.block_size, 2 * model.layers + 1
    sources = sum(1 + 2 * (site // size + (site % size > 0)) for site in range(sites))
    return 18.0 * model.d_model * sources + 5.0 * model.d_model * (sites - 1)


def kept_per_token(model: ModelConfig) -> float:
    """Two sources a site with the embedding's one, and what each read keeps of each of its sources."""
    size, sites = model.block_size, 2 * model.layers + 1
    sources = sum(1 + 2 * (site // size + (site % size > 0)) for site in range(sites))
    return (2 * sites - 1) * model.d_model + (model.routing_heads + 1) * sources


class Stream(RoutedStream):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, 2 * config.layers + 1)
        self.block_size = config.block_size

    def begin(self, embedding: Tensor) -> State:
        return DetailedBlocks(self.block_size, (split_sign(self.block_size),), self.eps, [embedding])

    def read(self, state: State, site: int) -> Tensor:
        return self.route(state.sources(), site)

    def write(self, state: State, site: int, output: Tensor) -> None:
        state.add(site, output)

    def finish(self, state: State) -> Tensor:
        return self.read(state, len(self.queries) - 1)

    def diagnose(self, state: State, site: int) -> dict[str, Tensor]:
        return {"weights": self.weights(state.sources(), site)}

    def sources(self, state: State, site: int) -> list[Tensor]:
        return list(state.sources())
