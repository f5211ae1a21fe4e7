"""From a pretrained checkpoint to a model of ours: the same weights, and routing that changes nothing yet."""

import json
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headcount.trainer.config import JobConfig
from headcount.trainer.convert.checkpoint import Checkpoint
from headcount.trainer.convert.checks import Check, check_conversion
from headcount.trainer.convert.families import Routing, job_for, read_config
from headcount.trainer.convert.names import huggingface_name, is_routing
from headcount.trainer.data.manifest import Manifest
from headcount.trainer.errors import UserError
from headcount.trainer.job_files.files import unwritable
from headcount.trainer.job_files.model_file import MODEL_FILE, metadata_of, write_model
from headcount.trainer.model.transformer import Transformer

TEXT_FILES = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "merges.txt", "tokenizer.model", "chat_template.jinja", "generation_config.json"),
)
"""Of the checkpoint, kept beside the model: what turns text to tokens and how text is written."""

KEPT_KEYS = ("model_type", "bos_token_id", "eos_token_id", "pad_token_id")
"""Of its configuration, which nothing of ours reads but the way back does."""

Tell = Callable[[str], object]


@dataclass(frozen=True)
class Converted:
    """The folder that was written, its model's job, and what the checks found."""

    folder: Path
    job: JobConfig
    parameters: int
    routing_parameters: int
    bytes: int
    """Of the file."""
    seconds: float
    """Of writing it."""
    checks: tuple[Check, ...]


def convert(
    source: Path,
    folder: Path,
    routing: Routing,
    *,
    context: int | None = None,
    data: Manifest | None = None,
    device: torch.device,
    tell: Tell = print,
) -> Converted:
    """Write `model.safetensors` of the checkpoint `source` into `folder`, and check it (`checks`).

    data: the tokens that the model will be probed on and trained on; none where it stands by its own
    tokenizer. Raises `UserError` for what does not convert, and where a check fails: then nothing is left.
    """
    config = read_config(source)
    checkpoint = Checkpoint(source)
    job = job_for(config, routing, context=context, precision=_precision(checkpoint, source))
    if data is not None and data.vocab_size > job.model.vocab_size:
        raise UserError(
            f"--data: {data.name} has {data.vocab_size} tokens, and the model {job.model.vocab_size}; "
            "prepare it with the model's own tokenizer.json"
        )
    expected = Transformer(job.model, 1, None, torch.device("meta")).state_dict()
    weights = match_weights(checkpoint, expected)
    if (folder / MODEL_FILE).exists():
        raise UserError(f"{folder} holds a model already; choose another folder")
    started = time.monotonic()
    file = _write(folder, weights, job, config, data)
    seconds, size = time.monotonic() - started, file.stat().st_size
    parameters = sum(weight.numel() for weight in expected.values())
    routing_parameters = sum(weight.numel() for name, weight in expected.items() if is_routing(name))
    tell(f"model  {config.model_type}, {parameters:,} parameters, of them {routing_parameters:,} of routing")
    tell(f"files  {folder}, {size / 1e9:.2f} GB written in {seconds:.1f} s")
    try:
        checks = check_conversion(file, source, checkpoint, device, tell)
    except BaseException:
        file.unlink()
        raise
    for name in TEXT_FILES:
        if (source / name).exists():
            shutil.copyfile(source / name, folder / name)
    return Converted(folder, job, parameters, routing_parameters, size, seconds, tuple(checks))


def match_weights(checkpoint: Checkpoint, expected: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a model with the shapes of `expected`, by our names and in its order: the checkpoint's,
    and routing that starts at zero.

    Raises `UserError` naming the checkpoint's key that is missing, of another shape, or unknown.
    """
    folder = checkpoint.folder
    theirs = {huggingface_name(name): name for name in expected if not is_routing(name)}
    weights: dict[str, Tensor] = {}
    for name, shape in ((name, tensor.shape) for name, tensor in expected.items()):
        if is_routing(name):
            start = torch.ones if ".key_weights." in name else torch.zeros
            weights[name] = start(shape, device="cpu")
            continue
        key = huggingface_name(name)
        if key not in checkpoint:
            raise UserError(
                f"{folder}: {key} is missing from the checkpoint; is a shard or its index incomplete?"
            )
        weights[name] = checkpoint[key]
        if weights[name].shape != shape:
            raise UserError(
                f"{folder}: {key} has the shape {list(weights[name].shape)}; config.json makes it "
                f"{list(shape)}"
            )
        if not weights[name].is_floating_point() or weights[name].itemsize == 1:
            raise UserError(f"{folder}: {key} is {weights[name].dtype}: quantised weights are not converted")
    _check_rest(folder, (key for key in checkpoint if key not in theirs), checkpoint)
    return weights


def _check_rest(folder: Path, rest: Iterable[str], checkpoint: Checkpoint) -> None:
    """Nothing else may be there but buffers of old versions, and a head that is the embedding again."""
    for key in rest:
        if key.endswith("rotary_emb.inv_freq"):
            continue
        if key == "lm_head.weight":
            if torch.equal(checkpoint[key], checkpoint["model.embed_tokens.weight"]):
                continue
            raise UserError(
                f"{folder}: lm_head.weight is not the embedding, though config.json ties them; set "
                "tie_word_embeddings to false there"
            )
        raise UserError(f"{folder}: {key} is no weight of such a model; is config.json the checkpoint's own?")


def _precision(checkpoint: Checkpoint, source: Path) -> str:
    name = huggingface_name("embedding")
    if name not in checkpoint:
        raise UserError(
            f"{source}: {name} is missing from the checkpoint; is a shard or its index incomplete?"
        )
    return "bf16" if checkpoint[name].itemsize == 2 else "fp32"


def _write(
    folder: Path, weights: dict[str, Tensor], job: JobConfig, config: Any, data: Manifest | None
) -> Path:
    kept = {key: getattr(config, key, None) for key in KEPT_KEYS}
    metadata = metadata_of(job, data.fingerprint if data else "", 0)
    metadata |= {"headcount.weights": "converted", "headcount.huggingface": json.dumps(kept)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_model(folder / MODEL_FILE, weights, metadata)
    except OSError as error:
        raise unwritable("the model", folder, error) from error
    return folder / MODEL_FILE
