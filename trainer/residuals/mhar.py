"""Multi-head attention residuals (arXiv 2607.27230, eq. 3); with one routing head, attention residuals
(arXiv 2603.15031, eq. 2–4).

Nothing is added to a running sum: each site mixes the embedding and the raw outputs of the sublayers before
it, and its sublayer's output joins them. Every site, the read before the head among them, has a query and a
key-norm weight of its own; the equation of a read is that of `headcount.kernels.route`.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from headcount.kernels import route
from headcount.trainer.config import ModelConfig
from headcount.trainer.residuals.interface import ResidualStream, State

READS = ("routing_heads", "query_init")


def added_parameters(model: ModelConfig) -> int:
    """A query and a key-norm weight for each of the 2·layers + 1 sites."""
    return 2 * model.d_model * (2 * model.layers + 1)


def added_flops_per_token(model: ModelConfig) -> float:
    """A read of N sources scores (2·d each), norms (2·d) and mixes (2·d); twice as much backward."""
    sites = 2 * model.layers + 1
    return 18.0 * model.d_model * (sites * (sites + 1) // 2)


class Stream(ResidualStream):
    """A query is one vector of the whole width, so at one seed it is the same for every number of heads.

    Site 0 reads one source, with weight 1 whatever its query: its two vectors get gradients of zero.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        sites, width = 2 * config.layers + 1, config.d_model
        self.heads, self.eps, self.query_init = config.routing_heads, config.norm_eps, config.query_init
        self.queries = nn.ParameterList(torch.zeros(width) for _ in range(sites))
        self.key_weights = nn.ParameterList(torch.ones(width) for _ in range(sites))

    def begin(self, embedding: Tensor) -> State:
        return [embedding]

    def read(self, state: State, site: int) -> Tensor:
        return route(state, self.queries[site], self.key_weights[site], self.heads, eps=self.eps)

    def write(self, state: State, site: int, output: Tensor) -> None:
        state.append(output)

    def finish(self, state: State) -> Tensor:
        return self.read(state, len(state) - 1)

    def drawn_vectors(self) -> Iterable[nn.Parameter]:
        return self.queries if self.query_init == "normal" else ()
