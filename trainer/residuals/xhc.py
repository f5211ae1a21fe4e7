"""xHC, expanded hyper-connections (arXiv 2607.14530), after the published description: N = `streams` residual
streams of which each token mixes and writes only k.

For a token with streams X [N, d] and u = vec(X), for each sublayer f:

    s = σ(LN(u) W_r)                          router; A = m fixed streams and the k − m others of highest s
    pre = σ(a_pre rms(u) W_pre + b_pre)       the sublayer reads Σ_i pre_i x_i, over all N streams
    v = rms(vec(X_A))
    res = Sinkhorn(a_res v W_res + b_res)     [k, k], in float32, rows above 1 divided by their sum
    post = 2σ(a_post v W_post + b_post)       [k, K]
    X_A ← res X_A + p · (post Y)              p is 1 for fixed streams and s for routed ones

The other streams stay as they are. Y [K, d] is the output y alone after attention; after the MLP it is y and
causal depthwise convolutions of y over 4, 8 and 12 tokens, each less its projections on those before. At the
end the streams are summed. k = min(4, N/2) and m = ⌊k/2⌋, which gives all published sizes. Every a is 0.01.

Start: no baseline's, since the streams are written unequally from the first step.

Assumptions (no start is published but a's): W_r ~ N(0, `init_std`²), so that the router tells streams apart;
W_pre, W_res, W_post = 0; b_pre = +2 for stream (site mod N) and −2 for the others; b_res = 4·I; b_post = 0
for y and −4 for its convolutions, which start as averages; all streams start as the embedding; the norms have
no weights, and eps `norm_eps` (LN: 1e-5); the fixed streams are the first m; the projections divide by
|.|² + 1e-6 · d; weight decay spares a and b. The form that moves less memory is `xhc_flash`.
"""

from functools import partial

from torch import Tensor

from headcount.kernels.definition import exact_dtype
from headcount.trainer.config import ModelConfig
from headcount.trainer.residuals.expanded import ActiveRows, Coefficients, ExpandedStream
from headcount.trainer.residuals.interface import State
from headcount.trainer.residuals.mixing import recomputed

READS = ("streams",)
DIAGNOSTICS = ("read", "mixing", "write", "active")


def label(model: ModelConfig) -> str:
    active = min(4, model.streams // 2)
    return f"xHC, after the published description, N = {model.streams}, {active} active"


def misfit(model: ModelConfig) -> tuple[str, str] | None:
    if model.streams < 2:
        return "streams", f"got {model.streams}; xhc needs 2 or more"
    return None


def added_parameters(model: ModelConfig) -> int:
    """(4N² + 2k³ + k² + 4k² + 24)·d a layer, with the biases and scales of its two sublayers."""
    n, k = model.streams, min(4, model.streams // 2)
    maps = (4 * n * n + 2 * k**3 + 5 * k * k + 24) * model.d_model
    return model.layers * (maps + 2 * (n + k * k + 3) + 5 * k)


def added_flops_per_token(model: ModelConfig) -> float:
    """Products with the maps, 2·d for each coefficient, and the convolutions; thrice with backward."""
    n, k, width = model.streams, min(4, model.streams // 2), model.d_model
    maps = (4 * n * n + 2 * k**3 + 5 * k * k + 24) * width
    coefficients = (2 * n + 2 * k * k + 5 * k) * width
    return 6.0 * model.layers * (maps + coefficients)


def kept_per_token(model: ModelConfig) -> float:
    """N states for each sublayer, the active ones, its output, Y after the MLP, and the coefficients."""
    n, k, width = model.streams, min(4, model.streams // 2), model.d_model
    vectors = 2 * (n + k + 1) + 4
    coefficients = 2 * (n + k * k + k * n) + 5 * k
    return model.layers * (vectors * width + coefficients) - (n - 1) * width


class Stream(ExpandedStream):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, [Coefficients(config, site) for site in range(2 * config.layers)])

    def begin(self, embedding: Tensor) -> State:
        return ActiveRows.copies(embedding, self.streams)

    def read(self, state: State, site: int) -> Tensor:
        read, mixing, write, active = recomputed(partial(self._coefficients, site), state.rows)
        x: Tensor = state.read(read.unsqueeze(-2))
        state.active = active.to(state.rows.dtype)
        state.prepare(mixing, write)
        return x.squeeze(-2)

    def write(self, state: State, site: int, output: Tensor) -> None:
        augmented = self.sublayers[site].augmented
        state.advance(recomputed(augmented, output) if site % 2 else output.unsqueeze(-2))

    def diagnose(self, state: State, site: int) -> dict[str, Tensor]:
        """The coefficients of the sublayer at `site`, for each token."""
        return dict(zip(DIAGNOSTICS, self._coefficients(site, state.rows), strict=True))

    def _coefficients(self, site: int, rows: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Read [..., N], mixing [..., k, k], write [..., k, K], the active streams one-hot [..., k, N]."""
        own, exact = self.sublayers[site], rows.to(exact_dtype(rows.dtype))
        flat = exact.flatten(-2)
        active, share = own.routing(flat)
        read = own.read(flat)
        mixing, write = own.update(active @ exact, share)
        assert mixing is not None
        return read, mixing, write, active
