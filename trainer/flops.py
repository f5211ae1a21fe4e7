"""What a job costs, from its configuration alone. Imports without torch.

Floating-point operations of one training token, forward and backward:

    6 · (weights of all matrix products) + 6 · layers · heads · head width · context + the stream's own

The head counts as a product and the embedding's look-up as nothing. Attention is causal, so a token
meets context / 2 keys on average (PaLM's formula, arXiv 2204.02311, appendix B, counts every key: 12 in place
of 6).
Norms, rotations and activations are left out. A product of [1, a] and [a, b] is 2·a·b operations.
"""

from headcount.trainer.config import JobConfig, ModelConfig
from headcount.trainer.residuals.registry import added_flops_per_token, added_parameters, stream_reads
from headcount.trainer.tail import evaluation_count

_PEAK_FLOPS = {
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "H200 NVL": 835e12,
    "H100": 989e12,
    "H200": 989e12,
    "A100": 312e12,
}
"""Dense bf16 operations a second of a card, by a part of its name, after the maker's data sheets."""


def peak_flops(hardware: str) -> float | None:
    """Of a card by its name; None for one that is not listed."""
    return next((peak for part, peak in _PEAK_FLOPS.items() if part in hardware), None)


def parameter_count(config: JobConfig) -> int:
    """Parameters of the whole model, a tied embedding once."""
    model = config.model
    of_heads = 2 * model.width_of_head if model.qk_norm == "per_head" else 0
    norms = model.layers * (2 * model.d_model + of_heads) + model.d_model
    qkv_width = (model.heads + 2 * model.kv_heads) * model.width_of_head
    biases = model.layers * qkv_width if model.qkv_bias == "learned" else 0
    return matrix_weights(model) + norms + biases + added_parameters(model)


def flops_per_token(config: JobConfig) -> float:
    """Of one training token, forward and backward."""
    model = config.model
    head = model.vocab_size * model.d_model
    attention = 6 * model.layers * model.heads * model.width_of_head * config.data.context
    blocks = 6.0 * (product_weights(model) - head) + attention
    passes = model.loops if "loops" in stream_reads(model.residual) else 1
    return passes * blocks + 6.0 * head + added_flops_per_token(model)


def job_flops(config: JobConfig) -> float:
    """Of the whole job: all updates, and its evaluations, which are forward only (a third)."""
    train = config.train
    trained = train.steps * train.batch_tokens
    evaluations = evaluation_count(train.steps, train.eval_every)
    evaluated = evaluations * train.eval_windows * config.data.context
    return flops_per_token(config) * (trained + evaluated / 3)


def product_weights(model: ModelConfig) -> int:
    """Of all matrix products, the head's among them."""
    attention = 2 * model.d_model * (model.heads + model.kv_heads) * model.width_of_head
    mlp = 3 * model.d_model * model.d_ff
    return model.layers * (attention + mlp) + model.vocab_size * model.d_model


def matrix_weights(model: ModelConfig) -> int:
    """Of all matrices: an embedding that is not the head's is one more, though no product."""
    looked_up = model.vocab_size * model.d_model if model.unembedding == "own" else 0
    return product_weights(model) + looked_up
