"""What a job takes of a GPU's memory at most, by a stated formula, for shapes that nothing was measured of.

    16 bytes a parameter (fp32 weights and gradients, both moments of AdamW), 2 more for their bf16 copies
    + tokens of one pass · bytes a value · (layers · (8 d + 4 KV width + 4 d_ff) + what the stream keeps)

The second line counts what a block keeps for its backward pass: two norms with their inputs, queries, keys
and values before and after their norm and rotation, the attention's output, and four arrays of the MLP.

Held against the peaks that docs/residual_streams.md lists of an H200 (scale `50m`, 16 windows of 1,024 tokens
in one pass), twelve streams come out within 12 %: additive 3.2 GiB where 3.1 was measured, mhar 3.5 and 3.8,
muddformer 4.7 and 4.2.
"""

from headcount.trainer.config import JobConfig
from headcount.trainer.execution import STATE_BYTES, activation_bytes, micro_batch_rule
from headcount.trainer.flops import parameter_count
from headcount.trainer.residuals.registry import kept_per_token


def peak_memory(config: JobConfig) -> float:
    """Bytes of a card, the allocator's cache and the CUDA context left out."""
    kept = kept_per_token(config.model) * (2 if config.train.precision == "bf16" else 4)
    tokens = micro_batch_rule(config) * config.data.context
    state = parameter_count(config) * STATE_BYTES[config.train.precision]
    return state + tokens * (activation_bytes(config) + kept)
