"""The weights of a folder in Hugging Face layout: one file of safetensors, or shards with an index."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from headcount.trainer.convert.extras import optional
from headcount.trainer.errors import UserError
from headcount.trainer.job_files.files import whole_file
from headcount.trainer.job_files.model_file import write_model

WHOLE_FILE, INDEX_FILE = "model.safetensors", "model.safetensors.index.json"

SHARD_BYTES = 4 * 2**30
"""Of weights in one file that we write."""


class Checkpoint(Mapping[str, Tensor]):
    """Tensors on the CPU by their names. They are mapped from their files: what is not used is not read."""

    def __init__(self, folder: Path) -> None:
        """Raises `UserError` where there are no such files, or one of them cannot be read."""
        self.folder = folder
        self._files: dict[str, Any] = {}
        self._places = self._read_index() if (folder / INDEX_FILE).exists() else self._read_whole()

    def __getitem__(self, name: str) -> Tensor:
        tensor: Tensor = self._open(self._places[name]).get_tensor(name)
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def _read_whole(self) -> dict[str, str]:
        if not (self.folder / WHOLE_FILE).exists():
            raise UserError(
                f"{self.folder} has neither {WHOLE_FILE} nor {INDEX_FILE}; a checkpoint in another format is "
                "saved anew by transformers: save_pretrained(folder)"
            )
        return dict.fromkeys(self._open(WHOLE_FILE).keys(), WHOLE_FILE)

    def _read_index(self) -> dict[str, str]:
        path = self.folder / INDEX_FILE
        try:
            places: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
        except (OSError, ValueError, KeyError) as error:
            raise UserError(f"cannot read {path}: {error}") from error
        for name, file in places.items():
            if name not in self._open(file).keys():  # noqa: SIM118
                raise UserError(
                    f"{path} places {name} in {file}, which does not hold it; copy that shard again"
                )
        return places

    def _open(self, file: str) -> Any:
        if file not in self._files:
            safetensors = optional("safetensors")
            try:
                self._files[file] = safetensors.safe_open(self.folder / file, framework="pt")
            except (OSError, safetensors.SafetensorError) as error:
                raise UserError(f"cannot read {self.folder / file}: {error}; copy it again") from error
        return self._files[file]


def write_checkpoint(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """In Hugging Face layout: one file, or shards of at most `SHARD_BYTES` and their index."""
    shards: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, tensor in tensors.items():
        if shards[-1] and size + tensor.nbytes > SHARD_BYTES:
            shards.append({})
            size = 0
        shards[-1][name] = tensor
        size += tensor.nbytes
    if len(shards) == 1:
        write_model(folder / WHOLE_FILE, shards[0], {"format": "pt"})
        return
    places: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        write_model(folder / file, shard, {"format": "pt"})
        places |= dict.fromkeys(shard, file)
    total = sum(tensor.nbytes for tensor in tensors.values())
    with whole_file(folder / INDEX_FILE) as file_:
        file_.write(json.dumps({"metadata": {"total_size": total}, "weight_map": places}, indent=1).encode())
