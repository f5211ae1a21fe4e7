"""DAR, dual attention residuals (arXiv 2607.18730), after the published description: "DAR-like", since parts
of the method are not public.

Two streams s, each with a history H_s of block sums and a running sum P_s. A site reads each stream's values
by weights that come from the other's keys, and the sublayer reads a combination of both:

    w^s = softmax_i(<q_s, g·rms(H_{1−s,i})>),   h^s = Σ_i w^s_i H_{s,i},   x = a_0 h^0 + a_1 h^1

Its output y is written to both: P_s ← r P_s + (1 − r) P_{1−s} + b_s y, a doubly stochastic mixing.

Start: both streams are the embedding, b = (1, 1) and a = (3/4, 1/4), so with queries of zero the model is the
additive one up to the norms' eps. Two equal streams with equal a would get equal gradients and stay one.

Assumptions: a, b and r are parameters of each site, not functions of the token; r is a sigmoid, from σ(4);
the mixing acts on the running sums, which blocks of one sublayer never have before a write; each site has one
key-norm weight g for both streams and its own two queries, which start as in `mhar`; the read before the head
is one more site; one routing head; weight decay spares a, b and r.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headcount.kernels import routing_weights
from headcount.trainer.config import ModelConfig
from headcount.trainer.residuals.interface import ResidualStream, State
from headcount.trainer.residuals.mixing import mix_by_head, recomputed

READS = ("query_init", "block_size", "logit_scale", "logit_scale_form", "query_decay")
DIAGNOSTICS = ("weights", "combination")


def label(model: ModelConfig) -> str:
    return f"DAR-like, after the published description, blocks of {model.block_size}"


def added_parameters(model: ModelConfig) -> int:
    """Two queries, a key-norm weight, a and perhaps learned scales a site; b and r a sublayer."""
    scales = 2 if model.logit_scale_form == "per_head" else 0
    return (2 * model.layers + 1) * (3 * model.d_model + 2 + scales) + 2 * model.layers * 3


def added_flops_per_token(model: ModelConfig) -> float:
    """Twice the reads of `mhar`, their combination (4·d) and the mixed write (8·d); thrice with backward."""
    size, width, sites = model.block_size, model.d_model, 2 * model.layers + 1
    sources = sum(1 + site // size + (site % size > 0) for site in range(sites))
    return 36.0 * width * sources + 12.0 * width * sites + 24.0 * width * (sites - 1)


def kept_per_token(model: ModelConfig) -> float:
    """The sources of both streams and the output that is scaled; a read is computed again."""
    return (3 * 2 * model.layers + 1) * model.d_model


@dataclass
class _Blocks:
    """One stream's history: the embedding, the sums of whole blocks of `size` writes, and the sum so far."""

    size: int
    whole: list[Tensor]
    partial: Tensor | None = None

    def add(self, site: int, output: Tensor) -> None:
        """Take in the output of sublayer `site`."""
        self.partial = output if self.partial is None else self.partial + output
        if (site + 1) % self.size == 0:
            self.whole.append(self.partial)
            self.partial = None

    def sources(self) -> list[Tensor]:
        """Oldest first, the running block last; nothing of a block that is yet to start."""
        return self.whole if self.partial is None else [*self.whole, self.partial]


class _Site(nn.Module):
    """One read of both histories."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.eps, self.logit_scale = config.norm_eps, config.logit_scale
        self.queries = nn.ParameterList(torch.zeros(config.d_model) for _ in range(2))
        self.key_weight = nn.Parameter(torch.ones(config.d_model))
        self.combination = nn.Parameter(torch.tensor((0.75, 0.25)))
        self.logit_scales: nn.Parameter | None = None
        if config.logit_scale_form == "per_head":
            self.logit_scale = 1.0
            self.logit_scales = nn.Parameter(torch.full((2,), config.logit_scale))

    def weights(self, keys: list[Tensor], stream: int) -> Tensor:
        """Over the sources of `stream`, from the other stream's as keys: [sources, ..., 1]."""
        query: Tensor = self.queries[stream]
        if self.logit_scales is not None:
            query = query * self.logit_scales[stream]
        return routing_weights(keys, query, self.key_weight, 1, eps=self.eps, logit_scale=self.logit_scale)

    def forward(self, *sources: Tensor) -> Tensor:
        """sources: of stream 0, then as many of stream 1."""
        first, second = list(sources[: len(sources) // 2]), list(sources[len(sources) // 2 :])
        a0, a1 = self.combination.to(first[0].dtype)
        of_first = mix_by_head(first, self.weights(second, 0))
        x: Tensor = a0 * of_first + a1 * mix_by_head(second, self.weights(first, 1))
        return x


class Stream(ResidualStream):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.block_size, self.query_init, self.std = config.block_size, config.query_init, config.init_std
        self.query_decay = config.query_decay
        sublayers = 2 * config.layers
        self.sites: Sequence[_Site] = nn.ModuleList(  # type: ignore[assignment]
            _Site(config) for _ in range(sublayers + 1)
        )
        self.writes = nn.ParameterList(torch.ones(2) for _ in range(sublayers))
        self.gates = nn.ParameterList(torch.full((1,), 4.0) for _ in range(sublayers))

    def begin(self, embedding: Tensor) -> State:
        return [_Blocks(self.block_size, [embedding]), _Blocks(self.block_size, [embedding])]

    def read(self, state: State, site: int) -> Tensor:
        first, second = state
        x: Tensor = recomputed(self.sites[site], *first.sources(), *second.sources())
        return x

    def write(self, state: State, site: int, output: Tensor) -> None:
        first, second = state
        if first.partial is not None:
            keep = torch.sigmoid(self.gates[site]).to(output.dtype)
            sums = first.partial, second.partial
            first.partial = keep * sums[0] + (1 - keep) * sums[1]
            second.partial = keep * sums[1] + (1 - keep) * sums[0]
        b0, b1 = self.writes[site].to(output.dtype)
        first.add(site, b0 * output)
        second.add(site, b1 * output)

    def finish(self, state: State) -> Tensor:
        return self.read(state, len(self.sites) - 1)

    def drawn(self) -> Iterable[tuple[nn.Parameter, float]]:
        if self.query_init == "zeros":
            return []
        return [(query, self.std) for site in self.sites for query in site.queries]

    def undecayed(self) -> Iterable[nn.Parameter]:
        scales = [site.logit_scales for site in self.sites if site.logit_scales is not None]
        routing: list[nn.Parameter] = []
        if self.query_decay == "spared":
            routing = [p for site in self.sites for p in (*site.queries, site.key_weight)]
        return [*routing, *(site.combination for site in self.sites), *self.writes, *self.gates, *scales]

    def diagnose(self, state: State, site: int) -> dict[str, Tensor]:
        """The weights of both streams [sources, ..., 2], and (a_0, a_1)."""
        sources, reader = [blocks.sources() for blocks in state], self.sites[site]
        weights = torch.cat([reader.weights(sources[1 - s], s) for s in (0, 1)], dim=-1)
        return {"weights": weights, "combination": reader.combination}
