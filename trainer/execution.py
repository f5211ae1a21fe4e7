"""How a job is executed, as against what it is: nothing here is part of its id. Imports without torch."""

from dataclasses import dataclass
from typing import Literal

from headcount.trainer.config import JobConfig
from headcount.trainer.flops import matrix_weights

CARDS = (8, 12, 16, 24, 32, 40, 48, 64, 80, 94, 141, 180)
"""Memory of cards in GB, as their makers state it: what one reports differs a little by driver."""

STATE_BYTES = {"bf16": 18.0, "fp32": 16.0}
"""Of a GPU for each parameter while a job trains: float32 weights and gradients, both moments of AdamW, and
bf16 copies of the weights."""

_MOST_TOKENS = 16_384
"""Of a pass."""


@dataclass(frozen=True)
class Execution:
    """Where and how fast; another device, thread count or micro-batch rounds differently."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`auto` is the GPU where there is one."""
    threads: int = 1
    """On the CPU."""
    gpus: int = 1
    """Each with a process of its own, which takes an equal part of every update's windows (`trainer.team`);
    with `device="cpu"`, processes."""
    checkpoint_seconds: float = 300.0
    """Training time between checkpoints; one more is written at the end, and when the job is stopped."""
    micro_batch: int | None = None
    """Windows of one forward and backward pass; by `micro_batch_rule` where none is given."""
    compile: bool = True
    """On a GPU in bf16: products on bf16 copies of the weights, the rest of each sublayer by Inductor."""
    graphs: bool = True
    """On a GPU: passes and updates as CUDA graphs, where the residual stream allows it."""
    exact: bool = True
    """The same bits again in the same environment. False lets PyTorch take kernels that may differ from run
    to run, as flash attention's faster backward pass does; the attempt's environment says so."""


def batch_windows(config: JobConfig) -> int:
    """Windows of one update."""
    return config.train.batch_tokens // config.data.context


def micro_batch_rule(config: JobConfig, card_bytes: float | None = None, gpus: int = 1) -> int:
    """Windows of one pass: the largest equal part of a GPU's share of the batch with at most 16,384 tokens
    whose activations fit half of what the weights and their optimizer leave of the card; at least one.

    `card_bytes`: the memory of the card, by the class in `CARDS` that it belongs to; none on the CPU and
    where no card is chosen yet. Never free memory, which would change bits from one attempt to the next, nor
    the residual stream, so that treatment and control round alike: the other half is for what streams keep.
    """
    windows = batch_windows(config) // gpus
    tokens = _MOST_TOKENS
    if card_bytes is not None:
        card = max((size for size in CARDS if size <= card_bytes / 1e9), default=0)
        left = card * 1e9 - matrix_weights(config.model) * STATE_BYTES[config.train.precision]
        tokens = min(tokens, int(max(0.0, left) / 2 / activation_bytes(config)))
    most = max(1, tokens // config.data.context)
    return max(n for n in range(1, max(1, min(most, windows)) + 1) if windows % n == 0)


def activation_bytes(config: JobConfig) -> float:
    """Of one token of a pass, what the blocks keep for the backward pass: two norms with their inputs,
    queries, keys and values before and after their norm and rotation, the attention's output, and four arrays
    of the MLP."""
    model = config.model
    heads_width = (model.heads + model.kv_heads) * model.width_of_head
    values = model.layers * (4 * model.d_model + 4 * heads_width + 4 * model.d_ff)
    return values * (2.0 if config.train.precision == "bf16" else 4.0)
