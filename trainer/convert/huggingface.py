"""From a model of ours to a folder that `transformers` loads by itself, with the code of its stream."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from headcount.trainer.config import JobConfig
from headcount.trainer.convert import remote
from headcount.trainer.convert.checkpoint import write_checkpoint
from headcount.trainer.convert.checks import EXACT, CheckFailed, logits, random_tokens
from headcount.trainer.convert.conversion import KEPT_KEYS, TEXT_FILES
from headcount.trainer.convert.extras import optional
from headcount.trainer.convert.families import rope_parameters
from headcount.trainer.convert.names import huggingface_name
from headcount.trainer.convert.reference import load_reference, reference_logits
from headcount.trainer.errors import UserError
from headcount.trainer.exact import exact_mode
from headcount.trainer.execution import Execution
from headcount.trainer.job_files.files import unwritable, whole_file
from headcount.trainer.job_files.model_file import MODEL_FILE, job_of, load_model, read_model
from headcount.trainer.model.transformer import Transformer

STREAMS = ("additive", "delta")

CODE = ("configuration_headcount", "rotary_headcount", "modeling_headcount")
"""Modules of `remote`, which are copied into the folder."""


def to_huggingface(
    source: Path, folder: Path, *, device: torch.device, tell: Callable[[str], object] = print
) -> dict[str, float]:
    """Write the model of ours in `source`, a `model.safetensors` or its folder, as `folder`, and check it;
    what the check found, by its name.

    Raises `UserError` for a stream that the code does not have, and where `transformers` computes other
    logits from the folder, or finds other gates in it: then nothing is left.
    """
    optional("transformers")
    file = source / MODEL_FILE if source.is_dir() else source
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty; choose another folder")
    tensors, metadata = read_model(file)
    job = job_of(metadata)
    if job.model.residual not in STREAMS:
        raise UserError(
            f"the residual stream of {file} is {job.model.residual}; expected one of {', '.join(STREAMS)}, "
            "which the code that goes with a Hugging Face folder has"
        )
    model, _ = load_model(file, device)
    kept = json.loads(metadata.get("headcount.huggingface", "{}"))
    dtype = tensors["embedding"].dtype
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_checkpoint(folder, {huggingface_name(name): tensor for name, tensor in tensors.items()})
        with whole_file(folder / "config.json") as written:
            written.write(json.dumps(_config(job, kept, dtype), indent=2).encode())
        for module in CODE:
            shutil.copyfile(Path(remote.__path__[0]) / f"{module}.py", folder / f"{module}.py")
        for name in TEXT_FILES:
            if (file.parent / name).exists():
                shutil.copyfile(file.parent / name, folder / name)
    except OSError as error:
        raise unwritable("the checkpoint", folder, error) from error
    tell(f"files  {folder}: {sum(path.stat().st_size for path in folder.iterdir()) / 1e9:.2f} GB")
    try:
        with exact_mode(Execution(threads=torch.get_num_threads(), exact=False)), torch.inference_mode():
            return _check(model, job, folder, device, tell)
    except BaseException:
        shutil.rmtree(folder)
        raise


def _config(job: JobConfig, kept: Mapping[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    model = job.model
    learned = model.logit_scale_form == "per_head"
    return {
        "architectures": ["HeadcountForCausalLM"],
        "auto_map": {
            "AutoConfig": "configuration_headcount.HeadcountConfig",
            "AutoModelForCausalLM": "modeling_headcount.HeadcountForCausalLM",
        },
        "model_type": "headcount",
        "dtype": str(dtype).removeprefix("torch."),
        "vocab_size": model.vocab_size,
        "hidden_size": model.d_model,
        "intermediate_size": model.d_ff,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.width_of_head,
        "max_position_embeddings": job.data.context,
        "rms_norm_eps": model.norm_eps,
        "initializer_range": model.init_std,
        "rope_parameters": rope_parameters(job),
        "tie_word_embeddings": model.unembedding == "tied",
        "qk_norm": model.qk_norm == "per_head",
        "qkv_bias": model.qkv_bias == "learned",
        "routing": "delta" if model.residual == "delta" else "none",
        "routing_heads": model.routing_heads,
        "routing_block_size": model.block_size,
        "routing_logit_scale": 1.0 if learned else model.logit_scale,
        "routing_learned_scales": learned,
        **{key: kept[key] for key in KEPT_KEYS if key != "model_type" and kept.get(key) is not None},
    }


def _check(
    model: Transformer, job: JobConfig, folder: Path, device: torch.device, tell: Callable[[str], object]
) -> dict[str, float]:
    loaded = load_reference(folder, device, torch.float32, trust_remote_code=True)
    theirs = {name: value for name, value in loaded.named_parameters() if name.endswith("_routing.gate")}
    ours = {name: value for name, value in model.named_parameters() if name.startswith("stream.gates.")}
    if not all(torch.equal(value, theirs[huggingface_name(name)]) for name, value in ours.items()):
        raise CheckFailed(f"the gates that transformers finds in {folder} are not the model's")
    tell(f"check  {len(ours)} gates as the model has them, after from_pretrained")
    tokens = random_tokens(job, device)
    found = loaded(tokens, use_cache=False).logits
    different = int((found != logits(model, tokens, torch.float32)).sum())
    total = found.numel()
    tell(f"check  logits in float32 of transformers: {different:,} of {total:,} differ in some bit")
    del loaded, found
    exact = reference_logits(folder, tokens, torch.float64, trust_remote_code=True)
    largest = float((logits(model.double(), tokens, torch.float64) - exact).abs().max())
    tell(f"check  logits in float64 of transformers: {largest:.1e} apart at most")
    if not largest <= EXACT:
        raise CheckFailed(
            f"logits of transformers from {folder} are up to {largest:.1e} from ours in float64; "
            f"expected {EXACT:g} at most"
        )
    return {
        "gates": float(len(ours)),
        "logits": float(total),
        "different float32": float(different),
        "largest difference float64": largest,
    }
