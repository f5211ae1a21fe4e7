"""What one training job is: a configuration in which every number is explicit. Imports without torch."""

import dataclasses
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin

from headcount.trainer.errors import FieldError as FieldError
from headcount.trainer.errors import nearest
from headcount.trainer.residuals.registry import added_parameters, stream_fields, stream_reads
from headcount.trainer.rules import check_rules
from headcount.trainer.scales import SCALES
from headcount.trainer.schedule import LATE_FALL
from headcount.trainer.sections import SECTIONS as SECTIONS
from headcount.trainer.sections import DataConfig as DataConfig
from headcount.trainer.sections import InitConfig as InitConfig
from headcount.trainer.sections import JobConfig as JobConfig
from headcount.trainer.sections import ModelConfig as ModelConfig
from headcount.trainer.sections import TrainConfig as TrainConfig

NUMERICS = 2
"""Part of every job id. Raised only when the same configuration would train to other numbers."""

BYTE_VOCABULARY = 256


FIELDS: dict[str, "dataclasses.Field[Any]"] = {
    f"{section}.{f.name}": f for section, kind in SECTIONS.items() for f in fields(kind)
}
"""Every field that a sweep may set or vary, by its dotted name."""

_DEFAULTS = {name: f.default for name, f in FIELDS.items() if f.default is not dataclasses.MISSING}

_NAMES_ONLY = {"model.scale", "data.source", "data.text"}
"""Equal shapes are equal jobs, and a fingerprint stands for the text."""


def job_from_fields(values: Mapping[str, object], seed: int = 0) -> JobConfig:
    """A job from dotted names to values, such as `{"train.steps": 200}`; every other field by default.

    Raises `FieldError` naming the field for anything unknown, mistyped or inconsistent.
    """
    complete = complete_fields(values)
    sections = {
        section: kind(**{n.partition(".")[2]: v for n, v in complete.items() if n.startswith(f"{section}.")})
        for section, kind in SECTIONS.items()
    }
    config = JobConfig(**sections, seed=seed)
    check_rules(config, fields_of(config))
    return config


def complete_fields(values: Mapping[str, object]) -> dict[str, Any]:
    """Every field of the job that `values` would give, before the rules between fields are checked.

    A sweep's `skip` expressions see these, so that they can leave out a cell that breaks a rule.
    Raises `FieldError` for a field that is unknown or mistyped, and for an unknown scale.
    """
    given = {name: check_field(name, value) for name, value in values.items()}
    scale = given.setdefault("model.scale", "nano")
    if scale not in SCALES:
        raise FieldError("model.scale", f"unknown scale {scale!r}; {nearest(scale, SCALES)}")
    if given.get("data.text"):
        if given.setdefault("data.source", "text") != "text":
            raise FieldError("data.text", "set either data.source or data.text, not both")
    elif given.get("data.source") == "text":
        raise FieldError("data.text", "expected a path or a list of paths, since data.source is text")
    complete = {**_DEFAULTS, "model.vocab_size": BYTE_VOCABULARY, **SCALES[scale], **given}
    steps = complete["train.steps"]
    complete.setdefault("train.warmup_steps", steps // 20)
    complete.setdefault("train.eval_every", max(1, steps // 40))
    return complete


def fields_of(config: JobConfig) -> dict[str, Any]:
    """Every field of a job by its dotted name, the seed left out. The inverse of `job_from_fields`."""
    return {
        f"{section}.{f.name}": getattr(getattr(config, section), f.name)
        for section, kind in SECTIONS.items()
        for f in fields(kind)
    }


def effective_fields(config: JobConfig) -> dict[str, Any]:
    """The fields that decide the job's numbers: no mere names, none that its stream or schedule ignores."""
    unread = {f"model.{name}" for name in stream_fields() - stream_reads(config.model.residual)}
    if config.train.schedule not in LATE_FALL:
        unread.add("train.decay_fraction")
    if config.train.schedule == "constant":
        unread.add("train.min_lr_ratio")
    if not added_parameters(config.model):
        unread.add("train.routing_lr_ratio")
    model = config.model
    if model.rope_scaling in ("none", "linear"):
        unread.add("model.rope_original_context")
    if model.rope_scaling == "none":
        unread.add("model.rope_factor")
    if model.width_of_head * model.heads == model.d_model:
        unread.add("model.head_width")
    return {name: v for name, v in fields_of(config).items() if name not in unread | _NAMES_ONLY}


def check_field(name: str, value: object) -> Any:
    """The value of the field `name` as its declared type. A whole number is taken where a real one is meant.

    Raises `FieldError` for an unknown name or a value of another type.
    """
    if name not in FIELDS:
        raise FieldError(name, f"unknown field; {nearest(name, FIELDS)}")
    declared: Any = FIELDS[name].type
    if get_origin(declared) is Literal:
        if value not in get_args(declared):
            raise FieldError(name, f"got {value!r}; {nearest(str(value), get_args(declared))}")
        return value
    if get_origin(declared) is tuple:
        paths = [value] if isinstance(value, str) else value
        if not isinstance(paths, list | tuple) or not all(isinstance(p, str) for p in paths):
            raise FieldError(name, f"got {value!r}; expected a path or a list of paths")
        return tuple(paths)
    accepted = {int: int, float: int | float, str: str}[declared]
    if isinstance(value, bool) or not isinstance(value, accepted):
        expected = {int: "a whole number", float: "a number", str: "a name"}[declared]
        raise FieldError(name, f"got {value!r}; expected {expected}")
    try:
        return declared(value)
    except OverflowError as error:
        raise FieldError(name, "too large; expected a finite number") from error
