"""The rules that hold within and between the fields of a job. Imports without torch."""

import math
import re
from collections.abc import Mapping

from headcount.trainer.errors import FieldError, nearest
from headcount.trainer.residuals.registry import stream_misfit, stream_names, stream_reads
from headcount.trainer.schedule import LATE_FALL, decay_steps
from headcount.trainer.sections import JobConfig, ModelConfig, TrainConfig
from headcount.trainer.tail import FEWEST, tail_size, tail_start


def check_rules(config: JobConfig, values: Mapping[str, object]) -> None:
    """Raises `FieldError` for the first rule broken. `values`: every field of `config` by its dotted name."""
    model, data, train = config.model, config.data, config.train
    for name, value in values.items():
        smallest = _SMALLEST.get(name)
        if smallest is not None and isinstance(value, int | float) and value < smallest:
            raise FieldError(name, f"got {value}; expected {smallest:g} or more")
        if isinstance(value, float) and not math.isfinite(value):
            raise FieldError(name, f"got {value}; expected a finite number")
    _check_attention(model)
    if model.residual not in stream_names():
        raise FieldError(
            "model.residual",
            f"unknown residual stream {model.residual!r}; {nearest(model.residual, stream_names())}",
        )
    if "routing_heads" in stream_reads(model.residual):
        _check_divides("model.routing_heads", model.routing_heads, "model.d_model", model.d_model)
    misfit = stream_misfit(model)
    if misfit is not None:
        raise FieldError(f"model.{misfit[0]}", misfit[1])
    _check_divides("data.context", data.context, "train.batch_tokens", train.batch_tokens)
    _check_train(train)
    if config.init.weights and not re.fullmatch("[0-9a-f]{64}", config.init.weights):
        raise FieldError("init.weights", f"got {config.init.weights!r}; expected a SHA-256 in hexadecimal")


def _check_attention(model: ModelConfig) -> None:
    if not model.head_width:
        _check_divides("model.heads", model.heads, "model.d_model", model.d_model)
    _check_divides("model.kv_heads", model.kv_heads, "model.heads", model.heads)
    if model.head_width % 2:
        raise FieldError("model.head_width", f"got {model.head_width}; rotary positions need an even one")
    if model.width_of_head % 2:
        raise FieldError(
            "model.heads", f"{model.d_model} / {model.heads} is odd; rotary positions need an even head width"
        )
    if model.rope_scaling == "yarn" and model.rope_theta == 1:
        raise FieldError("model.rope_theta", "got 1; expected more than 1 with model.rope_scaling: yarn")


def _check_train(train: TrainConfig) -> None:
    if train.warmup_steps >= train.steps:
        raise FieldError(
            "train.warmup_steps", f"got {train.warmup_steps}; expected fewer than train.steps ({train.steps})"
        )
    if train.min_lr_ratio > 1:
        raise FieldError("train.min_lr_ratio", f"got {train.min_lr_ratio}; expected at most 1")
    if train.adam_eps == 0:
        raise FieldError(
            "train.adam_eps", "got 0; expected more than 0, since a gradient may be 0 and is divided by it"
        )
    for name, beta in (("train.beta1", train.beta1), ("train.beta2", train.beta2)):
        if beta >= 1:
            raise FieldError(name, f"got {beta}; expected less than 1")
    if train.ema_decay >= 1:
        raise FieldError("train.ema_decay", f"got {train.ema_decay}; expected less than 1")
    if not 0 < train.decay_fraction <= 1:
        raise FieldError(
            "train.decay_fraction", f"got {train.decay_fraction}; expected more than 0 and at most 1"
        )
    if train.schedule in LATE_FALL and decay_steps(train) > (most := train.steps - train.warmup_steps):
        raise FieldError(
            "train.decay_fraction",
            f"got {train.decay_fraction}, which reaches into the warm-up; expected at most "
            f"{most / train.steps:g}",
        )
    _check_tail(train)


def _check_tail(train: TrainConfig) -> None:
    """The tail mean needs evaluations enough, none of them in the warm-up."""
    start = tail_start(train.steps)
    if train.warmup_steps > start:
        raise FieldError(
            "train.warmup_steps",
            f"got {train.warmup_steps}, which reaches into the tail; expected at most {start}, "
            "three quarters of train.steps",
        )
    most = train.steps // 8
    if most == 0:
        raise FieldError(
            "train.steps", f"got {train.steps}; expected 8 or more, for a tail of {FEWEST} evaluations"
        )
    if tail_size(train.steps, train.eval_every) < FEWEST:
        raise FieldError(
            "train.eval_every",
            f"got {train.eval_every}, which leaves fewer than {FEWEST} evaluations in the last quarter of "
            f"{train.steps} steps; expected {most} or less",
        )


_SMALLEST: dict[str, float] = {
    **dict.fromkeys(("model.d_model", "model.layers", "model.heads", "model.kv_heads", "model.d_ff"), 1),
    **dict.fromkeys(("model.routing_heads", "data.context", "train.steps", "train.batch_tokens"), 1),
    **dict.fromkeys(("train.eval_every", "train.eval_windows", "model.rope_theta"), 1),
    **dict.fromkeys(("model.rope_factor", "model.rope_original_context"), 1),
    **dict.fromkeys(("model.block_size", "model.streams", "model.laurel_rank", "model.laurel_past"), 1),
    **dict.fromkeys(("train.warmup_steps", "train.min_lr_ratio", "train.weight_decay", "train.peak_lr"), 0),
    **dict.fromkeys(("model.norm_eps", "model.init_std", "train.beta1", "train.beta2", "train.adam_eps"), 0),
    "model.vocab_size": 2,
    "model.loops": 1,
    "model.head_width": 0,
    **dict.fromkeys(("train.clip_norm", "train.z_loss", "train.ema_decay", "train.routing_lr_ratio"), 0),
    "model.logit_scale": 0,
}


def _check_divides(name: str, divisor: int, whole_name: str, whole: int) -> None:
    if whole % divisor:
        small = [n for n in range(1, math.isqrt(whole) + 1) if whole % n == 0]
        near = min((*small, *(whole // n for n in small)), key=lambda n: (abs(n - divisor), n))
        raise FieldError(
            name, f"{divisor} does not divide {whole_name} ({whole}); the nearest that does is {near}"
        )
