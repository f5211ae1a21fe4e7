"""What a job's configuration holds: fields of its model, its data and its training. Imports without torch."""

from dataclasses import dataclass
from typing import Literal


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
