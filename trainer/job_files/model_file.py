"""The final model as one file of safetensors: what other programs load, and what instruments read.

The format (huggingface.co/docs/safetensors): the length of a header as a little-endian uint64, the header as
JSON (each tensor's type, shape and place, and text under `__metadata__`), and the bytes of the tensors.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headcount.trainer.config import JobConfig, fields_of, job_from_fields
from headcount.trainer.errors import UserError
from headcount.trainer.job_files.files import whole_file
from headcount.trainer.job_files.model_header import LARGEST_HEADER
from headcount.trainer.job_files.model_header import MODEL_FILE as MODEL_FILE
from headcount.trainer.model.transformer import Transformer

_TYPES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16", torch.float64: "F64"}


def write_model(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """Write the tensors, whole or not at all; returns the file's SHA-256."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    place = 0
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _TYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [place, place + size],
        }
        place += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with whole_file(path) as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for tensor in tensors.values():
            file.write(tensor.detach().contiguous().cpu().flatten().view(torch.uint8).numpy().data)
    return file.hash.hexdigest()


def read_model(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors on the CPU, and the metadata. Raises `UserError` for a file that is not whole."""
    try:
        content = bytearray(path.read_bytes())
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    types = {name: kind for kind, name in _TYPES.items()}
    try:
        length = int.from_bytes(content[:8], "little")
        if length > min(LARGEST_HEADER, len(content)):
            raise ValueError
        header = json.loads(content[8 : 8 + length])
        metadata = header.pop("__metadata__", {})
        start = 8 + length
        tensors = {}
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            part = torch.frombuffer(content, dtype=torch.uint8, count=end - begin, offset=start + begin)
            tensors[name] = part.clone().view(types[entry["dtype"]]).view(entry["shape"])
    except (ValueError, KeyError, TypeError, RuntimeError) as error:
        raise UserError(f"{path} is not a whole safetensors file of ours; copy it again") from error
    return tensors, metadata


def metadata_of(config: JobConfig, fingerprint: str, step: int) -> dict[str, str]:
    """What the file of a job's model tells of itself."""
    return {
        "format": "pt",
        "headcount.job": json.dumps({**fields_of(config), "seed": config.seed}),
        "headcount.fingerprint": fingerprint,
        "headcount.step": str(step),
        "headcount.weights": "average" if config.train.ema_decay else "trained",
    }


def job_of(metadata: Mapping[str, str]) -> JobConfig:
    """The job whose model a file holds. Raises `UserError` where the file does not tell."""
    try:
        fields = json.loads(metadata["headcount.job"])
    except (KeyError, ValueError) as error:
        raise UserError("the model file does not tell its job; is it one of Headcount's?") from error
    seed = fields.pop("seed")
    return job_from_fields(fields, seed)


def load_model(path: Path, device: torch.device | str = "cpu") -> tuple[Transformer, dict[str, str]]:
    """The model that a job's file holds, with the compute precision of its job on a GPU, and the metadata.

    On a CPU everything is computed in float32. Raises `UserError` for a file that is not a whole model of a
    job of ours.
    """
    tensors, metadata = read_model(path)
    config = job_of(metadata)
    device = torch.device(device)
    model = Transformer(config.model, config.data.context, None, device)
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise UserError(f"{path} does not hold the weights of its job: {error}") from error
    if device.type == "cuda" and config.train.precision == "bf16":
        model.compute_dtype = torch.bfloat16
    return model.eval(), metadata
