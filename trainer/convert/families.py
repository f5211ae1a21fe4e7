"""Which checkpoints of `transformers` are models of ours, and the job that such a model belongs to."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from headcount.trainer.config import FieldError, JobConfig, job_from_fields
from headcount.trainer.convert.extras import optional
from headcount.trainer.errors import UserError
from headcount.trainer.model.rotary import LLAMA3_TURNS, YARN_TURNS

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")

PRETRAINED = "pretrained"
"""The data's source in the job of a model whose text we do not know."""

_OF_FIELDS = {
    "model.d_model": "hidden_size",
    "model.layers": "num_hidden_layers",
    "model.heads": "num_attention_heads",
    "model.kv_heads": "num_key_value_heads",
    "model.d_ff": "intermediate_size",
    "model.vocab_size": "vocab_size",
    "model.norm_eps": "rms_norm_eps",
    "model.init_std": "initializer_range",
}


@dataclass(frozen=True)
class Routing:
    """What a converted model gets: a stream that starts as the additive one, bit for bit."""

    residual: Literal["delta", "additive"] = "delta"
    heads: int = 8
    block_size: int = 1
    """Sublayers whose outputs are one source; 1 routes over every sublayer's."""


def read_config(folder: Path) -> Any:
    """The folder's configuration, as `transformers` reads it. Raises `UserError` naming the key that says
    what we do not have."""
    path = folder / "config.json"
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(
            f"{folder} has no config.json; name a folder in Hugging Face layout, which "
            "`hf download OWNER/NAME --local-dir FOLDER` makes of a model on the hub"
        ) from error
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    family = given.get("model_type")
    if family not in FAMILIES:
        raise UserError(f"{path}: model_type: got {family!r}; expected one of {', '.join(FAMILIES)}")
    if "quantization_config" in given:
        raise UserError(
            f"{path}: quantization_config: quantised weights are not converted; take the plain ones"
        )
    transformers = optional("transformers")
    try:
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"transformers cannot read {path}: {error}") from error
    for key, problem in _unsupported(config):
        raise UserError(f"{path}: {key}: {problem}")
    return config


def job_for(config: Any, routing: Routing, *, context: int | None, precision: str) -> JobConfig:
    """The job that the converted model belongs to; its recipe is that of the smallest scale, and unused.

    context: tokens a window; the longest that the model was made for where none is given. precision: of
    computing on a GPU. Raises `UserError` for a context or routing that does not fit.
    """
    longest = config.max_position_embeddings
    context = context or longest
    if context > longest:
        raise UserError(
            f"--context: got {context}; the model reads at most {longest} (max_position_embeddings)"
        )
    window = _sliding_window(config)
    if window is not None and window < context:
        raise UserError(
            f"--context: got {context}; attention here slides over {window} tokens (sliding_window), which "
            f"is not supported: with --context {window} or less it reads all of them"
        )
    fields: dict[str, object] = {name: getattr(config, key) for name, key in _OF_FIELDS.items()}
    width = getattr(config, "head_dim", None) or 0
    fields |= {
        "model.head_width": 0 if width * config.num_attention_heads == config.hidden_size else width,
        "model.qk_norm": "per_head" if config.model_type == "qwen3" else "none",
        "model.qkv_bias": "learned" if config.model_type == "qwen2" else "none",
        "model.unembedding": "tied" if config.tie_word_embeddings else "own",
        "model.residual": routing.residual,
        "model.routing_heads": routing.heads,
        "model.block_size": routing.block_size,
        "data.context": context,
        "data.source": PRETRAINED,
        "train.batch_tokens": context,
        "train.precision": precision,
        **_rope_fields(config.rope_parameters),
    }
    try:
        return job_from_fields(fields)
    except FieldError as error:
        raise UserError(f"the model does not convert: {error}") from error


def rope_parameters(job: JobConfig) -> dict[str, Any]:
    """The inverse of what `job_for` reads of them."""
    model = job.model
    found: dict[str, Any] = {"rope_type": "default", "rope_theta": model.rope_theta}
    if model.rope_scaling != "none":
        found |= {"rope_type": model.rope_scaling, "factor": model.rope_factor}
    if model.rope_scaling in ("llama3", "yarn"):
        found["original_max_position_embeddings"] = model.rope_original_context
    if model.rope_scaling == "llama3":
        found |= dict(zip(("low_freq_factor", "high_freq_factor"), LLAMA3_TURNS, strict=True))
    return found


def _rope_fields(rope: dict[str, Any]) -> dict[str, object]:
    fields: dict[str, object] = {"model.rope_theta": rope["rope_theta"]}
    if rope["rope_type"] != "default":
        fields |= {"model.rope_scaling": rope["rope_type"], "model.rope_factor": rope["factor"]}
    if rope["rope_type"] in ("llama3", "yarn"):
        fields["model.rope_original_context"] = rope["original_max_position_embeddings"]
    return fields


def _sliding_window(config: Any) -> int | None:
    """Tokens that some layer's attention is confined to."""
    kinds = getattr(config, "layer_types", None) or ()
    if config.model_type != "mistral" and "sliding_attention" not in kinds:
        return None
    window: int | None = getattr(config, "sliding_window", None)
    return window


def _unsupported(config: Any) -> Iterator[tuple[str, str]]:
    """Keys of the configuration whose value we do not have, with the problem."""
    if config.hidden_act not in ("silu", "swish"):
        yield "hidden_act", f"got {config.hidden_act!r}; expected 'silu'"
    for key in ("attention_bias", "mlp_bias"):
        if getattr(config, key, False):
            yield key, "got true; biases are supported on queries, keys and values alone, as in qwen2"
    rope = config.rope_parameters
    if (kind := rope["rope_type"]) not in ("default", "linear", "llama3", "yarn"):
        yield "rope_type", f"got {kind!r}; expected default, linear, llama3 or yarn"
    if rope.get("partial_rotary_factor", 1.0) != 1:
        yield "partial_rotary_factor", f"got {rope['partial_rotary_factor']}; expected 1"
    expected: dict[str, Any] = {}
    if kind == "llama3":
        expected = dict(zip(("low_freq_factor", "high_freq_factor"), LLAMA3_TURNS, strict=True))
    elif kind == "yarn":
        expected = dict(zip(("beta_slow", "beta_fast"), YARN_TURNS, strict=True))
        expected |= {"attention_factor": None, "mscale": None, "mscale_all_dim": None, "truncate": True}
    for key, value in expected.items():
        if rope.get(key, value) not in (value, None):
            yield (
                key,
                f"got {rope[key]}; expected {value}, or nothing"
                if value
                else f"got {rope[key]}; not supported",
            )
