"""How a job is executed, as against what it is: nothing here is part of its id. Imports without torch."""

from dataclasses import dataclass
from typing import Literal

from headcount.trainer.config import JobConfig

_MOST_TOKENS = 16_384
_MOST_LOGITS = 2**30


@dataclass(frozen=True)
class Execution:
    """Where and how fast; another device, thread count or micro-batch rounds differently."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`auto` is the GPU where there is one."""
    threads: int = 1
    """On the CPU."""
    checkpoint_seconds: float = 300.0
    """Training time between checkpoints; one more is written at the end, and when the job is stopped."""
    micro_batch: int | None = None
    """Windows of one forward and backward pass; by `micro_batch_rule` where not given."""
    compile: bool = True
    """On a GPU in bf16: products on bf16 copies of the weights, the rest of each sublayer by Inductor."""
    graphs: bool = True
    """On a GPU: passes and updates as CUDA graphs, where the residual stream allows it."""
    exact: bool = True
    """The same bits again in the same environment. False takes kernels that differ from run to run; the
    attempt's environment says so."""


def batch_windows(config: JobConfig) -> int:
    """Windows of one update."""
    return config.train.batch_tokens // config.data.context


def micro_batch_rule(config: JobConfig) -> int:
    """Windows of one pass: the largest equal part of the batch with at most 16,384 tokens and 2³⁰ logits.

    By shape alone: never by free memory, which would change bits from one attempt to the next, nor by
    residual stream, so that treatment and control round alike.
    """
    context = config.data.context
    tokens = min(_MOST_TOKENS, _MOST_LOGITS // config.model.vocab_size)
    most = max(1, tokens // context)
    windows = batch_windows(config)
    return max(n for n in range(1, min(most, windows) + 1) if windows % n == 0)
