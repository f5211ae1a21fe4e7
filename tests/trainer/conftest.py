"""A small text and a small job, which trains in well under a second."""

import random
from collections.abc import Callable

import pytest

from headcount.trainer.config import DataConfig, JobConfig, job_from_fields
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


@pytest.fixture
def small_job() -> Callable[..., JobConfig]:
    """A small job; other fields by name, with `__` for the dot: `small_job(model__residual="mhar")`."""

    def make(seed: int = 0, **fields: object) -> JobConfig:
        return job_from_fields(SMALL | {k.replace("__", "."): v for k, v in fields.items()}, seed)

    return make


@pytest.fixture(scope="session")
def small_data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    home = tmp_path_factory.mktemp("home")
    words = random.Random(0).choices(["the", "depth", "of", "a", "head", "reads"], k=4000)
    (home / "text.txt").write_text(" ".join(words))
    config = DataConfig(context=16, source="text", text=(str(home / "text.txt"),))
    return open_dataset(prepare(config, home).fingerprint, home)
