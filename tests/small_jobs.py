"""A small text, a small job on it, which trains in well under a second, and a stop after some updates."""

import random
from collections.abc import Callable
from pathlib import Path

from headcount.trainer.config import DataConfig
from headcount.trainer.data import Dataset, open_dataset, prepare

SMALL = {
    "model.d_model": 16,
    "model.heads": 4,
    "model.kv_heads": 2,
    "model.d_ff": 24,
    "data.context": 16,
    "train.batch_tokens": 8 * 16,
    "train.steps": 16,
    "train.eval_every": 2,
    "train.eval_windows": 4,
    "train.peak_lr": 1e-2,
}


def write_words(file: Path, count: int = 4000) -> Path:
    words = random.Random(0).choices(["the", "depth", "of", "a", "head", "reads"], k=count)
    file.write_text(" ".join(words))
    return file


def words_dataset(home: Path, count: int = 4000, context: int = 16) -> Dataset:
    text = write_words(home / "text.txt", count)
    config = DataConfig(context=context, source="text", text=(str(text),))
    return open_dataset(prepare(config, home).fingerprint, home)


def after(updates: int) -> Callable[[], bool]:
    """A `stop` that lets that many updates pass."""
    asked = iter(range(updates + 1))
    return lambda: next(asked) == updates
