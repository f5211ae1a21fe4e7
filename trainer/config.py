"""What one training job is: a configuration in which every number is explicit. Imports without torch."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args, get_origin

from headcount.trainer.errors import FieldError as FieldError
from headcount.trainer.errors import nearest
from headcount.trainer.residuals.registry import added_parameters, stream_fields, stream_reads
from headcount.trainer.rules import check_rules
from headcount.trainer.scales import SCALES
from headcount.trainer.schedule import LATE_FALL

NUMERICS = 2
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
    rope_scaling: Literal["none", "linear", "llama3", "yarn"] = "none"
    """How rotary frequencies are lowered for windows longer than those of the first training."""
    rope_factor: float = 1.0
    """Of the scaling: what the lowest frequencies are divided by."""
    rope_original_context: int = 8192
    """Tokens a window of the first training (`llama3`, `yarn`)."""
    head_width: int = 0
    """Of a head's queries, keys and values; 0 is d_model / heads."""
    qk_norm: Literal["per_head", "none"] = "per_head"
    """Of queries and keys, before they are rotated."""
    qkv_bias: Literal["none", "learned"] = "none"
    """Added to queries, keys and values."""
    unembedding: Literal["tied", "own"] = "tied"
    """The head's weight: the embedding, or one of its own."""
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
    query_decay: Literal["decayed", "spared"] = "decayed"
    """Whether weight decay applies to routing queries and key-norm weights, as it does to every weight;
    `delta` spares them always."""
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

    @property
    def width_of_head(self) -> int:
        """Of one head's queries, keys and values."""
        return self.head_width or self.d_model // self.heads


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
    """The recipe: AdamW, a schedule of the learning rate, fixed validation windows."""

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
    routing_lr_ratio: float = 1.0
    """Learning rate of the residual stream's own parameters, over that of all others."""
    schedule: Literal["cosine", "linear", "wsd", "one_minus_sqrt", "constant"] = "cosine"
    """After the linear warm-up; see `trainer.schedule`."""
    min_lr_ratio: float = 0.1
    """The last update's learning rate as a share of the peak; the schedule `constant` does not read it."""
    decay_fraction: float = 0.2
    """Of all steps: the last part, over which the schedules `wsd` and `one_minus_sqrt` fall."""
    beta1: float = 0.9
    beta2: float = 0.95
    adam_eps: float = 1e-8
    weight_decay: float = 0.1
    clip_norm: float = 1.0
    """Longest gradient, over all parameters; 0 clips none."""
    z_loss: float = 0.0
    """Weight of the mean squared logarithm of the softmax's normaliser (PaLM, arXiv 2204.02311, section 5) in
    what is minimised; reported losses are without it."""
    ema_decay: float = 0.0
    """Of an exponential moving average of the weights, update by update, which is evaluated and kept as the
    final model in place of the trained weights; 0 keeps no average."""


@dataclass(frozen=True)
class InitConfig:
    """What training starts from, which files name by `init.from`: see `trainer.starting`."""

    weights: str = ""
    """SHA-256 of the file that holds the weights, in hexadecimal; empty where they are drawn by the seed."""


@dataclass(frozen=True)
class JobConfig:
    """One cell at one seed. Made by `job_from_fields`, which fills and checks every field."""

    model: ModelConfig
    data: DataConfig
    train: TrainConfig
    seed: int
    init: InitConfig = InitConfig()


SECTIONS: dict[str, type] = {
    "model": ModelConfig,
    "data": DataConfig,
    "train": TrainConfig,
    "init": InitConfig,
}

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
