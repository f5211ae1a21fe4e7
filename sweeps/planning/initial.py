"""A sweep whose jobs start from a trained model: what its `init.from` stands for."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headcount.sweeps.file.rules import field_places
from headcount.sweeps.file.spec import SweepSpec
from headcount.trainer.config import complete_fields
from headcount.trainer.starting import INIT_FROM, model_fields

_RESIDUAL = "model.residual"

_SHAPE = {
    f"model.{name}"
    for name in (
        *("d_model", "layers", "heads", "kv_heads", "d_ff", "vocab_size", "head_width"),
        *("qk_norm", "qkv_bias", "unembedding"),
    )
}
"""Fields that the weights fix; others, such as the base of rotary positions, a sweep may set anew."""


def with_initial(spec: SweepSpec, weights: str, source: Mapping[str, Any]) -> SweepSpec:
    """The sweep with the weights of that SHA-256, and with the model's fields as `source` has them, the job
    that the weights are of, where the file does not say otherwise.

    Raises `SpecError` where it contradicts the weights.
    """
    model = model_fields(source)
    for name in sorted(_SHAPE & model.keys()):
        if name in spec.ranges:
            raise spec.error(
                f"searched over, where the model that {INIT_FROM} names has {model[name]}; leave it out",
                f"axes.{name}",
            )
        given = spec.axes.get(name, (spec.job[name],) if name in spec.job else ())
        for value in given:
            if value != model[name]:
                raise spec.error(
                    f"got {value}, where the model that {INIT_FROM} names has {model[name]}; leave it out",
                    *field_places(spec, name, {name: value}),
                )
    return replace(spec, initial={**model, "init.weights": weights})


def check_stream(spec: SweepSpec, residual: str) -> None:
    """Raises `SpecError` where a job has another stream than `residual`, whose routing is trained."""
    trained = f"where the model that {INIT_FROM} names has trained {residual}, whose routing would be lost"
    own = complete_fields(spec.shared)[_RESIDUAL]
    for value in spec.axes.get(_RESIDUAL, (own,)):
        if value != residual:
            places = field_places(spec, _RESIDUAL, {_RESIDUAL: value})
            raise spec.error(f"got {value}, {trained}; set it to {residual}", *places, f"job.{INIT_FROM}")
    control = residual if spec.control is None else spec.control.get(_RESIDUAL, residual)
    if control != residual:
        raise spec.error(
            f"the control is {control}, {trained}; name a control of the same stream, or `control: none`",
            f"control.{_RESIDUAL}",
            f"job.{INIT_FROM}",
        )
