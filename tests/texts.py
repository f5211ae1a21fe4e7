"""Text drawn at random, and the forms it comes in."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet

from headcount.trainer.data import Manifest
from headcount.trainer.data.manifest import dataset_folder
from headcount.trainer.data.shards import TOKEN_TYPES

LETTERS = "abcdefgh \nĀ€𝄞"


def words(seed: int, size: int, letters: str = LETTERS) -> str:
    drawn = random.Random(seed)
    return "".join(drawn.choice(letters) for _ in range(size))


def as_files(texts: Sequence[str], folder: Path) -> Path:
    folder.mkdir()
    for number, text in enumerate(texts):
        (folder / f"{number:04}.txt").write_bytes(text.encode())
    return folder


def as_jsonl(texts: Sequence[str], path: Path, column: str = "text") -> Path:
    rows = [json.dumps({"id": n, column: text}, ensure_ascii=n % 2 == 0) for n, text in enumerate(texts)]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def as_parquet(texts: Sequence[str | None], path: Path, rows: int = 50) -> Path:
    table = pyarrow.table({"id": list(range(len(texts))), "text": texts})
    pyarrow.parquet.write_table(table, path, row_group_size=rows)
    return path


def sides(manifest: Manifest, home: Path) -> list[list[int]]:
    """The tokens of the training and the validation side."""
    folder = dataset_folder(manifest.fingerprint, home)
    kind = TOKEN_TYPES[manifest.dtype]
    return [
        [token for shard in shards for token in _read(folder / shard.file, manifest.header, kind)]
        for shards in (manifest.train, manifest.validation)
    ]


def _read(path: Path, header: int, kind: np.dtype) -> list[int]:
    return np.frombuffer(path.read_bytes()[header:], dtype=kind).tolist()
