"""The depth history of a model's forward pass: sources are written, sites read them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch.nn.functional as F
from torch import Tensor

from headcount.kernels.choice import Choice, choose, with_launch
from headcount.kernels.reference import inverse_rms, route_reference
from headcount.kernels.routing import fold
from headcount.kernels.turns import Turns, Vectors, matrix_of, rows_of

if TYPE_CHECKING:
    from headcount.kernels.two_phase import TwoPhase


class DepthHistory(Turns):
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
        queries: Vectors,
        key_weights: Vectors,
        heads: int,
        *,
        eps: float = 1e-6,
        logit_scale: float = 1.0,
        block_size: int | None = None,
        implementation: str = "auto",
    ) -> None:
        """queries, key_weights: [N, d], or N vectors [d], one a site, in any float dtype.
        heads, eps, logit_scale: as in `route`.
        block_size: None for full routing; otherwise how many sublayers' outputs are summed into one source.
        Sites then read the embedding, the finished blocks and the sum so far of the current one (Block
        AttnRes, arXiv 2603.15031 section 3.2).
        implementation: `reference`, `fused`, `two_phase` (full routing only) or `auto`, which picks.

        Raises ValueError naming the argument that does not fit.
        """
        super().__init__({"queries": queries, "key_weights": key_weights}, heads, implementation)
        if block_size is not None and block_size < 1:
            raise ValueError(f"block_size must be at least 1 sublayer, got {block_size}")
        self.queries, self.key_weights = queries, key_weights
        self.eps, self.logit_scale, self.block_size = eps, logit_scale, block_size
        self._sources: list[Tensor] = []
        self._norms: list[Tensor] = []
        self.route_fused: Callable[[Sequence[Tensor], Tensor, int, float], Tensor] | None = None
        self.whole_model: TwoPhase | None = None
        self.summed = 0
        self.choice: Choice | None = None

    @property
    def sources(self) -> list[Tensor]:
        """What the next site would read over, oldest first; without gradients where two_phase holds them.

        Raises RuntimeError after two_phase's backward, which lets go of them.
        """
        if self.whole_model is None:
            return list(self._sources)
        if not hasattr(self.whole_model.forward, "sources"):
            raise RuntimeError("the sources are gone: two_phase lets go of them in its backward")
        assert self.kind is not None
        return [row.view(self.kind[0]) for row in self.whole_model.forward.sources[: self.num_written]]

    def write(self, source: Tensor) -> None:
        """Append a source [..., d]: first the embedding, then each sublayer's output.

        Raises ValueError when it differs from the first in shape, dtype or device, RuntimeError out of turn.
        """
        self.check_source(source)
        if self.choice is None:
            self._begin(source)
        if self.whole_model is not None:
            self.whole_model.write(source)
        elif self.block_size is None or self.num_written == 0:
            self._sources.append(source)
        elif self.summed % self.block_size == 0:
            self._sources.append(source)
            self.summed = 1
        else:
            self._sources[-1] = self._sources[-1] + source
            self.summed += 1
        self.num_written += 1

    def place(self) -> Tensor | None:
        """Where the next source may be computed, [..., d] in the sources' dtype, to save `write` a copy; None
        where it may lie anywhere.
        """
        return None if self.whole_model is None else self.whole_model.forward.place()

    def write_product(self, x: Tensor, weight: Tensor) -> None:
        """Append x weightᵀ, a sublayer's last product: `write(F.linear(x, weight))`, but two_phase computes
        it in its place in the history, which saves a copy.

        x: [..., k]; weight: [d, k]; both of the sources' dtype. Raises as `write` does.
        """
        if self.whole_model is None:
            self.write(F.linear(x, weight))
            return
        self.check_turn()
        assert self.kind is not None
        shape, dtype, device = self.kind
        for name, tensor, expected in (
            ("x", x, (*shape[:-1], *weight.shape[1:])),
            ("weight", weight, (self.width, *x.shape[-1:])),
        ):
            if (tensor.shape, tensor.dtype, tensor.device) != (expected, dtype, device):
                raise ValueError(
                    f"{name} is {tensor.dtype} {list(tensor.shape)} on {tensor.device}, expected {dtype} "
                    f"{list(expected)} on {device}"
                )
        self.whole_model.write_product(x, weight)
        self.num_written += 1

    def read(self) -> Tensor:
        """What the next site reads: [..., d], in the sources' dtype. Do not change it in place.

        Raises RuntimeError out of turn.
        """
        site = self.count_read()
        if self.whole_model is not None:
            return self.whole_model.read()
        if self.route_fused is not None:
            return self.route_fused(self._sources, self.folded[site], self.heads, self.eps)
        del self._norms[len(self._sources) - 1 :]  # of a running sum that has changed
        self._norms += [inverse_rms(source, self.eps) for source in self._sources[len(self._norms) :]]
        return route_reference(self._sources, self._norms, self.folded[site], self.heads)

    def read_normed(self, weight: Tensor, eps: float) -> Tensor:
        """`F.rms_norm(read(), (d,), weight, eps)`, the usual start of a sublayer; in two_phase in the kernels
        that read, forward and backward. weight: [d], in the sources' dtype or float32.

        Raises ValueError when it does not fit, RuntimeError out of turn.
        """
        device = self.kind[2] if self.kind else weight.device
        if weight.shape != (self.width,) or not weight.is_floating_point() or weight.device != device:
            raise ValueError(
                f"weight must be floating point of shape [{self.width}] on {device}, got "
                f"{weight.dtype} {list(weight.shape)} on {weight.device}"
            )
        if self.whole_model is None:
            x = self.read()
            return F.rms_norm(x, (self.width,), weight.to(x.dtype), eps)
        self.count_read()
        return self.whole_model.read_normed(weight.contiguous(), eps)

    def finish(self) -> Tensor:
        """What the last site reads, before the final norm and the head.

        Raises RuntimeError when sites remain.
        """
        self.check_finish()
        return self.read()

    def _begin(self, source: Tensor) -> None:
        choice = choose(self.implementation, source, one_site=self.block_size is not None)
        self.choice = with_launch(choice, source, self.heads)
        if self.choice.implementation == "reference":
            pairs = zip(rows_of(self.queries), rows_of(self.key_weights), strict=True)
            self.folded = [fold(query, weight, self.logit_scale, source) for query, weight in pairs]
            return
        folded = fold(matrix_of(self.queries), matrix_of(self.key_weights), self.logit_scale, source)
        if self.choice.implementation == "fused":
            from headcount.kernels.fused import route_fused

            self.folded = list(folded.unbind(0))
            self.route_fused = route_fused
        else:
            from headcount.kernels.two_phase import TwoPhase

            self.whole_model = TwoPhase(folded, source, self.heads, self.eps)
