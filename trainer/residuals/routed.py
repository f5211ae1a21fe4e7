"""What the streams that read by depth routing share: their sites."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from headcount.kernels import Choice, choose, route, routing_weights, with_launch
from headcount.trainer.config import ModelConfig
from headcount.trainer.residuals.interface import ResidualStream, State


class RoutedStream(ResidualStream):
    """`sites` reads, each with a query and a key-norm weight of its own; the equation of a read is that of
    `headcount.kernels.route`.

    A query is one vector of the whole width, so at one seed it is the same for every number of heads. Where
    `config.logit_scale_form` is `per_head`, each head of each site learns a factor on its logits, spared by
    weight decay, which would flatten the softmax by itself.
    """

    def __init__(self, config: ModelConfig, sites: int) -> None:
        super().__init__(config)
        width = config.d_model
        self.heads, self.eps, self.std = config.routing_heads, config.norm_eps, config.init_std
        self.query_init, self.logit_scale = config.query_init, config.logit_scale
        self.query_decay = config.query_decay
        self.queries = nn.ParameterList(torch.zeros(width) for _ in range(sites))
        self.key_weights = nn.ParameterList(torch.ones(width) for _ in range(sites))
        self.logit_scales = nn.ParameterList()
        if config.logit_scale_form == "per_head":
            self.logit_scale = 1.0
            self.logit_scales.extend(torch.full((self.heads,), config.logit_scale) for _ in range(sites))

    def route(self, sources: list[Tensor], site: int) -> Tensor:
        """The read of `site`: each head's slice of the sources [..., d_model], mixed by its own weights."""
        query, key_weight = self.scaled_query(site), self.key_weights[site]
        return route(sources, query, key_weight, self.heads, eps=self.eps, logit_scale=self.logit_scale)

    def weights(self, sources: list[Tensor], site: int) -> Tensor:
        """The softmax over depth by which `site` mixes: [sources, ..., heads], float32 or float64."""
        query, key_weight = self.scaled_query(site), self.key_weights[site]
        return routing_weights(
            sources, query, key_weight, self.heads, eps=self.eps, logit_scale=self.logit_scale
        )

    def sources(self, state: State, site: int) -> list[Tensor] | None:
        """What `site` mixes by its one query and `weights`, oldest first; none where its read is another."""
        return None

    def routing(self, source: Tensor) -> Choice | None:
        return with_launch(choose("auto", source, one_site=True), source, self.heads)

    def drawn(self) -> Iterable[tuple[nn.Parameter, float]]:
        return [(query, self.std) for query in self.queries] if self.query_init == "normal" else []

    def undecayed(self) -> Iterable[nn.Parameter]:
        routing = [] if self.query_decay == "decayed" else [*self.queries, *self.key_weights]
        return [*routing, *self.logit_scales]

    def scaled_query(self, site: int) -> Tensor:
        """The query of `site` times its learned scales, where it has some; `logit_scale` is yet to come."""
        query: Tensor = self.queries[site]
        if self.logit_scales:
            query = (query.view(self.heads, -1) * self.logit_scales[site].unsqueeze(-1)).flatten()
        return query


class HistoryStream(RoutedStream):
    """A stream whose state is a depth history of `headcount.kernels`, which counts its sites by itself."""

    def read(self, state: State, site: int) -> Tensor:
        x: Tensor = state.read()
        return x

    def write(self, state: State, site: int, output: Tensor) -> None:
        state.write(output)

    def place(self, state: State) -> Tensor | None:
        place: Tensor | None = state.place()
        return place

    def finish(self, state: State) -> Tensor:
        x: Tensor = state.finish()
        return x
