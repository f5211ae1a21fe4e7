"""Multi-head attention residuals (arXiv 2607.27230, eq. 3); with one routing head, attention residuals
(arXiv 2603.15031, eq. 2–4).

Nothing is added to a running sum: each site mixes the embedding and the raw outputs of the sublayers before
it, and its sublayer's output joins them. Every site, the read before the head among them, has a query and a
key-norm weight of its own. With `block_size` S above 1 the sources are the sums of S outputs and, within a
block, the sum so far (arXiv 2603.15031, section 3.2); a last block may be shorter.

Start: with queries of zero every site reads the mean of what the additive stream adds up, so the model
computes the same up to the norms' eps.
"""

from torch import Tensor

from headcount.kernels import Choice, DepthHistory, choose, with_launch
from headcount.trainer.config import ModelConfig
from headcount.trainer.residuals.interface import State
from headcount.trainer.residuals.routed import HistoryStream

READS = ("routing_heads", "query_init", "block_size", "logit_scale", "logit_scale_form", "query_decay")
DIAGNOSTICS = ("weights",)
PROBED = True


def label(model: ModelConfig) -> str:
    name = f"MHAR, H = {model.routing_heads}" if model.routing_heads > 1 else "attention residuals (H = 1)"
    return name if model.block_size == 1 else f"{name}, blocks of {model.block_size}"


def added_parameters(model: ModelConfig) -> int:
    """A query, a key-norm weight and perhaps learned scales for each of the 2·layers + 1 sites."""
    scales = model.routing_heads if model.logit_scale_form == "per_head" else 0
    return (2 * model.d_model + scales) * (2 * model.layers + 1)


def added_flops_per_token(model: ModelConfig) -> float:
    """A read of N sources scores (2·d each), norms (2·d) and mixes (2·d); twice as much backward."""
    size = model.block_size
    sources = sum(1 + site // size + (site % size > 0) for site in range(2 * model.layers + 1))
    return 18.0 * model.d_model * sources


def kept_per_token(model: ModelConfig) -> float:
    """The sources, as no running sum stands in for them, and what each read keeps of each of its sources."""
    size, sites = model.block_size, 2 * model.layers + 1
    sources = sum(1 + site // size + (site % size > 0) for site in range(sites))
    return sites * model.d_model + (model.routing_heads + 1) * sources


class Stream(HistoryStream):
    """Site 0 reads one source, with weight 1 whatever its query: its two vectors get gradients of zero."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, 2 * config.layers + 1)
        self.block_size = config.block_size

    def begin(self, embedding: Tensor) -> State:
        history = DepthHistory(
            [self.scaled_query(site) for site in range(len(self.queries))],
            list(self.key_weights),
            self.heads,
            eps=self.eps,
            logit_scale=self.logit_scale,
            block_size=None if self.block_size == 1 else self.block_size,
        )
        history.write(embedding)
        return history

    def routing(self, source: Tensor) -> Choice | None:
        return with_launch(choose("auto", source, one_site=self.block_size > 1), source, self.heads)

    def diagnose(self, state: State, site: int) -> dict[str, Tensor]:
        return {"weights": self.weights(state.sources, site)}

    def sources(self, state: State, site: int) -> list[Tensor]:
        return list(state.sources)
