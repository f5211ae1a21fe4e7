"""The depth history of delta attention residuals (arXiv 2605.18855): a running sum, to which each site adds a
gated read of how it has changed.
"""

from typing import TYPE_CHECKING

from torch import Tensor

from headcount.kernels.choice import Choice, choose, with_launch
from headcount.kernels.routing import fold, route
from headcount.kernels.turns import Turns, Vectors, matrix_of, rows_of

if TYPE_CHECKING:
    from headcount.kernels.two_phase import TwoPhase


class DeltaHistory(Turns):
    """One forward pass. A model with L blocks has 2L sublayers and as many sites:

        history = DeltaHistory(queries, key_weights, nulls, gates, heads)
        history.write(embedding)
        for sublayer in sublayers:
            history.write(sublayer(history.read()))
        x = history.finish()

    With p the sum of all that was written so far, a site reads p + gate · `headcount.kernels.route` of its
    null source, the embedding and the sums of each `block_size` outputs that are complete; `finish` gives p.
    Make a new one for each forward pass; `choice` says which implementation runs, and why.
    """

    def __init__(
        self,
        queries: Vectors,
        key_weights: Vectors,
        nulls: Vectors,
        gates: Vectors,
        heads: int,
        *,
        eps: float = 1e-6,
        logit_scale: float = 1.0,
        block_size: int = 1,
        implementation: str = "auto",
    ) -> None:
        """queries, key_weights, nulls: [N, d], or N vectors [d], one a sublayer; gates: [N, 1], or N of [1].
        block_size: how many sublayers' outputs are summed into one source. The rest as in `DepthHistory`;
        heads too wide for a tile (`launch.py`), and float32 on a GPU, are read one site at a time (`fused`).

        Raises ValueError naming the argument that does not fit.
        """
        vectors = {"queries": queries, "key_weights": key_weights, "nulls": nulls}
        super().__init__(vectors, heads, implementation, extra_writes=1)
        shapes = [list(gate.shape) for gate in rows_of(gates)]
        if shapes != [[1]] * self.num_sites:
            raise ValueError(
                f"gates must be one of shape [1] for each of {self.num_sites} sites, got {shapes}"
            )
        if block_size < 1:
            raise ValueError(f"block_size must be at least 1 sublayer, got {block_size}")
        self.queries, self.key_weights, self.nulls, self.gates = queries, key_weights, nulls, gates
        self.eps, self.logit_scale, self.block_size = eps, logit_scale, block_size
        self.whole_model: TwoPhase | None = None
        self.choice: Choice | None = None
        self._sources: list[Tensor] = []

    def write(self, output: Tensor) -> None:
        """Add to the sum [..., d]: first the embedding, then each sublayer's output.

        Raises ValueError when it differs from the first in shape, dtype or device, RuntimeError out of turn.
        """
        self.check_source(output)
        if self.choice is None:
            self._begin(output)
            self._append(output)
            self.total = self.boundary = output
        else:
            self.total = self.total + output
            if self.num_written % self.block_size == 0 and self.num_written < self.num_sites:
                self._append(output if self.block_size == 1 else self.total - self.boundary)
                self.boundary = self.total
        self.num_written += 1

    def place(self) -> Tensor | None:
        """As `DepthHistory.place`: of outputs that are sources by themselves."""
        is_source = self.block_size == 1 and 0 < self.num_written < self.num_sites
        return self.whole_model.forward.place() if self.whole_model and is_source else None

    def read(self) -> Tensor:
        """What the next sublayer reads: [..., d], in the sources' dtype.

        Raises RuntimeError out of turn.
        """
        site = self.count_read()
        if self.whole_model is not None:
            return self.whole_model.read_gated(self.total)
        assert self.choice is not None
        routed = route(
            self.sources_of(site),
            self.queries[site],
            self.key_weights[site],
            self.heads,
            eps=self.eps,
            logit_scale=self.logit_scale,
            implementation=self.choice.implementation,
        )
        return self.total + self.gates[site].to(routed.dtype) * routed

    def finish(self) -> Tensor:
        """The sum of all that was written, before the final norm and the head.

        Raises RuntimeError when sites remain.
        """
        self.check_finish()
        return self.total

    def sources_of(self, site: int) -> list[Tensor]:
        """What `site`, if due now, reads over: its null source, then the shared ones, oldest first; without
        gradients where two_phase holds them.
        """
        null = self.nulls[site].to(self.total.dtype).expand_as(self.total)
        if self.whole_model is None:
            return [null, *self._sources]
        forward = self.whole_model.forward
        return [null, *(row.view_as(null) for row in forward.sources[: forward.num_written])]

    def _append(self, source: Tensor) -> None:
        if self.whole_model is None:
            self._sources.append(source)
        else:
            self.whole_model.write(source)

    def _begin(self, source: Tensor) -> None:
        self.choice = with_launch(
            choose_for_delta(self.implementation, source, self.heads), source, self.heads
        )
        if self.choice.implementation != "two_phase":
            return
        from headcount.kernels.gating import DeltaForm
        from headcount.kernels.two_phase import TwoPhase

        folded = fold(matrix_of(self.queries), matrix_of(self.key_weights), self.logit_scale, source)
        delta = DeltaForm(
            matrix_of(self.nulls).float(), matrix_of(self.gates).float().flatten(), self.block_size
        )
        self.whole_model = TwoPhase(folded, source, self.heads, self.eps, delta=delta)


def choose_for_delta(implementation: str, source: Tensor, heads: int) -> Choice:
    """`choose` for a `DeltaHistory` of sources like `source`."""
    choice = choose(implementation, source, one_site=False)
    if choice.implementation == "two_phase":
        from headcount.kernels.launch import one_site_at_a_time
        from headcount.kernels.tiles import Tiles

        if one_site_at_a_time(Tiles.of(source.shape[-1], heads), source):
            return choose(implementation, source, one_site=True)
    return choice
