"""The depth history of a model's forward pass: sources are written, sites read them."""

import dataclasses

from torch import Tensor

from headcount.kernels.choice import Choice, check_name, choose
from headcount.kernels.definition import check_heads
from headcount.kernels.reference import route_reference
from headcount.kernels.routing import fold


class DepthHistory:
    """One forward pass's depth history, through which all its sites read.

    A model with L blocks has 2L sublayers and N = 2L + 1 sites, one before each sublayer and one before
    the head:

        history = DepthHistory(queries, key_weights, heads)
        history.write(embedding)
        for sublayer in sublayers:
            history.write(sublayer(history.read()))
        x = history.finish()

    Make a new one for each forward pass. What each site reads is `headcount.kernels.route` of the sources
    so far, whichever implementation runs; `choice` says which, and why, once the first source is there.
    """

    def __init__(
        self,
        queries: Tensor,
        key_weights: Tensor,
        heads: int,
        *,
        eps: float = 1e-6,
        logit_scale: float = 1.0,
        block_size: int | None = None,
        implementation: str = "auto",
    ) -> None:
        """queries, key_weights: [N, d], one row a site, in any float dtype. heads, eps, logit_scale: as
        in `route`.

        block_size: None for full routing. Otherwise the sublayers in a block whose outputs are summed
        into one
        source: sites read the embedding, the finished blocks and the sum so far of the current one (Block
        AttnRes, arXiv 2603.15031 section 3.2).
        implementation: `reference`, `fused`, `two_phase` (full routing only) or `auto`, which picks.

        Raises ValueError naming the argument that does not fit.
        """
        if queries.dim() != 2 or not queries.is_floating_point():
            raise ValueError(f"queries must be floating point of shape [sites, d], got {list(queries.shape)}")
        if key_weights.shape != queries.shape or not key_weights.is_floating_point():
            raise ValueError(
                f"key_weights must be floating point of shape {list(queries.shape)} like queries, got "
                f"{list(key_weights.shape)}"
            )
        check_heads(heads, queries.shape[1])
        if block_size is not None and block_size < 1:
            raise ValueError(f"block_size must be at least 1 sublayer, got {block_size}")
        check_name(implementation)
        self.queries, self.key_weights, self.heads = queries, key_weights, heads
        self.eps, self.logit_scale, self.block_size = eps, logit_scale, block_size
        self.implementation = implementation
        self.num_sites = len(queries)
        self.num_written = self.num_read = 0
        self.sources: list[Tensor] = []
        self.summed = 0
        self.choice: Choice | None = None

    def write(self, source: Tensor) -> None:
        """Append a source [..., d]: first the embedding, then each sublayer's output.

        Raises ValueError when it differs from the first in shape, dtype or device, RuntimeError out of turn.
        """
        if self.num_written != self.num_read or self.num_written == self.num_sites:
            raise RuntimeError(
                f"write out of turn: {self.num_written} sources and {self.num_read} reads of "
                f"{self.num_sites} sites so far; write the embedding, then read and write in turn"
            )
        if self.choice is None:
            self._begin(source)
        elif (source.shape, source.dtype, source.device) != self.kind:
            shape, dtype, device = self.kind
            raise ValueError(
                f"source is {source.dtype} {list(source.shape)} on {source.device}, but the first was "
                f"{dtype} {list(shape)} on {device}: all sources need one shape, dtype and device"
            )
        if self.whole_model is not None:
            self.whole_model.write(source)
        elif self.block_size is None or self.num_written == 0:
            self.sources.append(source)
        elif self.summed % self.block_size == 0:
            self.sources.append(source)
            self.summed = 1
        else:
            self.sources[-1] = self.sources[-1] + source
            self.summed += 1
        self.num_written += 1

    def read(self) -> Tensor:
        """What the next site reads: [..., d], in the sources' dtype. Do not change it in place.

        Raises RuntimeError out of turn.
        """
        if self.num_read + 1 != self.num_written:
            raise RuntimeError(
                f"read out of turn: {self.num_written} sources and {self.num_read} reads so far; each read "
                "follows the write of one more source"
            )
        site = self.num_read
        self.num_read += 1
        if self.whole_model is not None:
            return self.whole_model.read()
        return self.read_one(self.sources, self.folded[site], self.heads, self.eps)

    def finish(self) -> Tensor:
        """What the last site reads, before the final norm and the head.

        Raises RuntimeError when sites remain.
        """
        if self.num_written != self.num_sites:
            raise RuntimeError(
                f"finish after {self.num_written} sources, but the model has {self.num_sites} sites"
            )
        return self.read()

    def _begin(self, source: Tensor) -> None:
        width = self.queries.shape[1]
        if source.dim() == 0 or source.shape[-1] != width or not source.is_floating_point():
            raise ValueError(
                f"source must be floating point of shape [..., {width}] like queries, got {source.dtype} "
                f"{list(source.shape)}"
            )
        for name, parameter in (("queries", self.queries), ("key_weights", self.key_weights)):
            if parameter.device != source.device:
                raise ValueError(f"{name} is on {parameter.device} but the source is on {source.device}")
        self.kind = (source.shape, source.dtype, source.device)
        folded = fold(self.queries, self.key_weights, self.logit_scale, source)
        self.choice = choose(self.implementation, source, one_site=self.block_size is not None)
        self.whole_model = None
        self.read_one = route_reference
        self.folded = folded.unbind(0)
        if self.choice.implementation == "fused":
            from headcount.kernels.fused import route_fused

            self.read_one = route_fused
        elif self.choice.implementation == "two_phase":
            from headcount.kernels.two_phase import TwoPhase

            self.whole_model = TwoPhase(folded, source, self.heads, self.eps)
            self.choice = dataclasses.replace(self.choice, launch=dataclasses.asdict(self.whole_model.launch))
