"""The ready-made sizes and their recipes; every field is free to be set otherwise. Imports without torch.

`100m`, `350m` and `1b` are the published shapes with the published recipe, `124m` the published control.
`8b` is the shape of Llama 3.1 with the published mid-training recipe (its batch is not published): it can be
planned and converted, not trained here.
"""

from typing import Any

NOT_TRAINED = ("8b",)
"""Scales for planning and conversion alone."""

DEVIATIONS = (
    "float32 master weights, where the published runs keep bfloat16 weights alone",
    "evaluations on fixed windows, where the published ones are on 50 batches",
    "the vocabulary of the data set, where the published one has 151,936 tokens",
)
"""In what a job of a published scale departs from the published recipe by default."""


def _scale(
    d_model: int,
    layers: int,
    heads: int,
    kv_heads: int,
    d_ff: int,
    *,
    context: int,
    batch_windows: int,
    steps: int = 20_000,
    precision: str = "bf16",
    peak_lr: float = 1e-3,
) -> dict[str, Any]:
    return {
        "model.d_model": d_model,
        "model.layers": layers,
        "model.heads": heads,
        "model.kv_heads": kv_heads,
        "model.d_ff": d_ff,
        "data.context": context,
        "train.batch_tokens": context * batch_windows,
        "train.steps": steps,
        "train.precision": precision,
        "train.peak_lr": peak_lr,
    }


SCALES: dict[str, dict[str, Any]] = {
    "nano": _scale(64, 2, 4, 2, 192, context=128, batch_windows=8, steps=240, precision="fp32", peak_lr=3e-3),
    "micro": _scale(128, 4, 8, 4, 384, context=256, batch_windows=8, steps=1_000, precision="fp32"),
    "20m": _scale(384, 6, 8, 4, 1152, context=512, batch_windows=64),
    "50m": _scale(512, 8, 8, 4, 1536, context=1024, batch_windows=64),
    "100m": _scale(512, 12, 8, 4, 1536, context=2048, batch_windows=64),
    "124m": _scale(768, 12, 12, 4, 2048, context=1024, batch_windows=64),
    "350m": _scale(1024, 24, 16, 8, 4096, context=1024, batch_windows=32),
    "1b": _scale(1280, 36, 16, 8, 5120, context=1024, batch_windows=32),
    "8b": {
        **_scale(4096, 32, 32, 8, 14_336, context=4096, batch_windows=64, steps=9_500, peak_lr=4e-4),
        "train.min_lr_ratio": 0.01,
        "model.rope_theta": 500_000.0,
        "model.norm_eps": 1e-5,
    },
}
"""Dotted fields of a job by the name of the scale."""
