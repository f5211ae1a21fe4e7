import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from headcount.trainer.config import JobConfig
from headcount.trainer.errors import UserError
from headcount.trainer.job_files.model_file import job_of, metadata_of, read_model, write_model

TENSORS = {
    "a": torch.arange(6, dtype=torch.float32).view(2, 3),
    "b": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
    "c": torch.tensor(3.0, dtype=torch.float64),
}


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and torch.equal(one[name], other[name]) for name in one
    )


def test_the_safetensors_library_reads_what_we_write(tmp_path: Path) -> None:
    write_model(tmp_path / "m.safetensors", TENSORS, {"format": "pt", "note": "é"})
    assert equal(load_file(tmp_path / "m.safetensors"), TENSORS)
    with safe_open(tmp_path / "m.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt", "note": "é"}


def test_we_read_what_the_safetensors_library_writes(tmp_path: Path) -> None:
    save_file(TENSORS, tmp_path / "m.safetensors", {"format": "pt"})
    tensors, metadata = read_model(tmp_path / "m.safetensors")
    assert equal(tensors, TENSORS)
    assert metadata == {"format": "pt"}


def test_a_file_tells_its_job(tmp_path: Path, small_job: Callable[..., JobConfig]) -> None:
    job = small_job(seed=5, model__residual="mhar", train__ema_decay=0.9)
    write_model(tmp_path / "m.safetensors", TENSORS, metadata_of(job, "f" * 64, 16))
    _, metadata = read_model(tmp_path / "m.safetensors")
    assert job_of(metadata) == job
    told = {name: metadata[f"headcount.{name}"] for name in ("fingerprint", "step", "weights")}
    assert told == {"fingerprint": "f" * 64, "step": "16", "weights": "average"}


def test_a_file_that_is_not_whole_or_not_ours(tmp_path: Path) -> None:
    file = tmp_path / "m.safetensors"
    write_model(file, TENSORS, {"format": "pt"})
    content = file.read_bytes()
    for broken in (b"", content[:5], content[:-4], b"\xff" * 64, json.dumps({}).encode()):
        file.write_bytes(broken)
        with pytest.raises(UserError, match=r"m\.safetensors is not a whole safetensors file"):
            read_model(file)
    with pytest.raises(UserError, match="the model file does not tell its job"):
        job_of({"format": "pt"})
