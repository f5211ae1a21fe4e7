import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from headcount.trainer.convert import checkpoint as checkpoints
from headcount.trainer.convert.checkpoint import INDEX_FILE, Checkpoint, write_checkpoint
from headcount.trainer.convert.checks import random_tokens
from headcount.trainer.convert.families import Routing, job_for, read_config
from headcount.trainer.convert.reference import reference_logits
from headcount.trainer.errors import UserError


def copied(source: Path, folder: Path) -> Path:
    for file in source.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def test_what_is_written_in_shards_is_read_by_us_and_by_transformers(
    checkpoint: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = checkpoint("qwen2")
    theirs = Checkpoint(source)
    monkeypatch.setattr(checkpoints, "SHARD_BYTES", 20_000)
    write_checkpoint(tmp_path, theirs)
    (tmp_path / "config.json").write_bytes((source / "config.json").read_bytes())
    names = sorted(file.name for file in tmp_path.glob("*.safetensors"))
    assert len(names) > 3
    assert names[0] == f"model-00001-of-{len(names):05d}.safetensors"
    ours = Checkpoint(tmp_path)
    assert set(ours) == set(theirs)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    sizes = sum(tensor.nbytes for tensor in theirs.values())
    assert json.loads((tmp_path / INDEX_FILE).read_text())["metadata"]["total_size"] == sizes
    job = job_for(read_config(source), Routing(), context=None, precision="fp32")
    tokens = random_tokens(job, torch.device("cpu"))
    with torch.inference_mode():
        found, expected = (reference_logits(f, tokens, torch.float32) for f in (tmp_path, source))
    assert torch.equal(found, expected)


def test_a_checkpoint_that_is_not_whole_names_the_file(
    checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=rf"has neither model\.safetensors nor {INDEX_FILE}"):
        Checkpoint(tmp_path)
    folder = copied(checkpoint("llama"), tmp_path)
    index = json.loads((folder / INDEX_FILE).read_text())
    first, second = sorted(set(index["weight_map"].values()))[:2]
    content = (folder / second).read_bytes()
    (folder / second).write_bytes(content[:-8])
    with pytest.raises(UserError, match=rf"cannot read .*{second}: .*; copy it again"):
        Checkpoint(folder)
    (folder / second).unlink()
    with pytest.raises(UserError, match=rf"cannot read .*{second}: .*; copy it again"):
        Checkpoint(folder)
    (folder / second).write_bytes((folder / first).read_bytes())
    with pytest.raises(
        UserError, match=rf"places .* in {second}, which does not hold it; copy that shard again"
    ):
        Checkpoint(folder)
    (folder / INDEX_FILE).write_text("{}")
    with pytest.raises(UserError, match=rf"cannot read .*{INDEX_FILE}: 'weight_map'"):
        Checkpoint(folder)
