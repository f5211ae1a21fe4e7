"""What one training job is: a configuration in which every number is explicit. Imports without torch."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args, get_origin

from headcount.trainer.errors import UserError, nearest
from headcount.trainer.residuals.registry import stream_fields, stream_misfit, stream_names, stream_reads
from headcount.trainer.scales import SCALES
from headcount.trainer.tail import FEWEST, tail_size, tail_start

NUMERICS = 1
"""Part of every job id. Raised only when the same configuration would train to other numbers."""

BYTE_VOCABULARY = 256


@dataclass(frozen=True)
class ModelConfig:
    """The transformer. Fields without a default take the value of `scale`."""

    scale: str
    d_model: int
    layers: int
    heads: int
    kv_heads: int
    d_ff: int
    vocab_size: int
    """Of the data's tokenizer; 256 for bytes."""
    rope_theta: float = 10_000.0
    norm_eps: float = 1e-6
    init_std: float = 0.02
    residual: str = "additive"
    """The residual stream, a file of `trainer/residuals`."""
    routing_heads: int = 1
    query_init: Literal["zeros", "normal"] = "zeros"
    block_size: int = 1
    """Sublayers whose outputs are summed to one source of the depth history; 1 keeps every output apart."""
    logit_scale: float = 1.0
    """Factor on every routing logit, an inverse temperature; the start value where it is learned."""
    logit_scale_form: Literal["fixed", "per_head"] = "fixed"
    """`per_head` learns one factor for each head of each site."""
    detail_bias: float = -2.0
    """Start of the logit bias on detail sources (`wav`)."""
    streams: int = 4
    """Parallel streams of the hyper-connections family; parts of the width in `frac_connections`."""
    connections: Literal["dynamic", "static", "simplified"] = "dynamic"
    """Form of `hyper_connections`; `frac_connections` has the first two."""
    mhc_init: Literal["near_identity", "normal"] = "near_identity"
    value_mix: Literal["constant", "learned"] = "constant"
    laurel_form: Literal["rw", "lr", "pa", "rw_lr"] = "rw_lr"
    laurel_rank: int = 16
    laurel_past: int = 2
    """Earlier states, the present one among them, that the form `pa` reads."""
    loops: int = 1
    """Passes through the stack of blocks, with the same weights (`deeploop`)."""


@dataclass(frozen=True)
class DataConfig:
    """The text: a named `source`, or the user's own UTF-8 files in `text` (files, folders, globs)."""

    context: int
    """Tokens a window."""
    source: str = "stdlib"
    """`text` where the files of `text` are read."""
    text: tuple[str, ...] = ()


@dataclass(frozen=True)
class TrainConfig:
    """The recipe: AdamW, linear warm-up, cosine to `min_lr_ratio` of the peak, fixed validation windows."""

    steps: int
    batch_tokens: int
    precision: Literal["fp32", "bf16"]
    warmup_steps: int
    """5 % of the steps where not given."""
    eval_every: int
    """Steps between evaluations, the first before step 0; a fortieth of the steps where not given."""
    eval_windows: int = 64
    """All validation windows where the data has fewer."""
    peak_lr: float = 1e-3
    min_lr_ratio: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.95
    adam_eps: float = 1e-8
    weight_decay: float = 0.1
    clip_norm: float = 1.0


@dataclass(frozen=True)
class JobConfig:
    """One cell at one seed. Made by `job_from_fields`, which fills and checks every field."""

    model: ModelConfig
    data: DataConfig
    train: TrainConfig
    seed: int


SECTIONS: dict[str, type] = {"model": ModelConfig, "data": DataConfig, "train": TrainConfig}

FIELDS: dict[str, "dataclasses.Field[Any]"] = {
    f"{section}.{f.name}": f for section, kind in SECTIONS.items() for f in fields(kind)
}
"""Every field that a sweep may set or vary, by its dotted name."""

_DEFAULTS = {name: f.default for name, f in FIELDS.items() if f.default is not dataclasses.MISSING}

_NAMES_ONLY = {"model.scale", "data.source", "data.text"}
"""Equal shapes are equal jobs, and a fingerprint stands for the text."""


class FieldError(UserError):
    """A field of a job that is unknown, of the wrong type, or that breaks a rule."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name, problem)  # both, so that the error can be sent between processes
        self.name = name
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.name}: {self.problem}"


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
    _check_rules(config)
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
    """The fields that decide the job's numbers: no mere names, and none that its stream leaves unread."""
    unread = {f"model.{name}" for name in stream_fields() - stream_reads(config.model.residual)}
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
    return declared(value)


def _check_rules(config: JobConfig) -> None:
    """The rules that hold between fields. Raises `FieldError` for the first one broken."""
    model, data, train = config.model, config.data, config.train
    for name, value in fields_of(config).items():
        smallest = _SMALLEST.get(name)
        if smallest is not None and value < smallest:
            raise FieldError(name, f"got {value}; expected {smallest:g} or more")
        if isinstance(value, float) and not value < float("inf"):
            raise FieldError(name, f"got {value}; expected a finite number")
    _check_divides("model.heads", model.heads, "model.d_model", model.d_model)
    _check_divides("model.kv_heads", model.kv_heads, "model.heads", model.heads)
    if model.d_model // model.heads % 2:
        raise FieldError(
            "model.heads", f"{model.d_model} / {model.heads} is odd; rotary positions need an even head width"
        )
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
    if train.warmup_steps >= train.steps:
        raise FieldError(
            "train.warmup_steps", f"got {train.warmup_steps}; expected fewer than train.steps ({train.steps})"
        )
    if train.min_lr_ratio > 1:
        raise FieldError("train.min_lr_ratio", f"got {train.min_lr_ratio}; expected at most 1")
    for name, beta in (("train.beta1", train.beta1), ("train.beta2", train.beta2)):
        if beta >= 1:
            raise FieldError(name, f"got {beta}; expected less than 1")
    if train.clip_norm <= 0:
        raise FieldError("train.clip_norm", f"got {train.clip_norm}; expected more than 0")
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
    **dict.fromkeys(("model.block_size", "model.streams", "model.laurel_rank", "model.laurel_past"), 1),
    **dict.fromkeys(("train.warmup_steps", "train.min_lr_ratio", "train.weight_decay", "train.peak_lr"), 0),
    **dict.fromkeys(("model.norm_eps", "model.init_std", "train.beta1", "train.beta2", "train.adam_eps"), 0),
    "model.vocab_size": 2,
    "model.loops": 1,
    "model.logit_scale": 0,
}


def _check_divides(name: str, divisor: int, whole_name: str, whole: int) -> None:
    if whole % divisor:
        small = [n for n in range(1, math.isqrt(whole) + 1) if whole % n == 0]
        near = min((*small, *(whole // n for n in small)), key=lambda n: (abs(n - divisor), n))
        raise FieldError(
            name, f"{divisor} does not divide {whole_name} ({whole}); the nearest that does is {near}"
        )
