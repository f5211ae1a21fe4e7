"""The small job and its text, as fixtures."""

from collections.abc import Callable

import pytest
from small_jobs import SMALL, words_dataset

from headcount.trainer.config import JobConfig, job_from_fields
from headcount.trainer.data import Dataset


@pytest.fixture
def small_job() -> Callable[..., JobConfig]:
    """A small job; other fields by name, with `__` for the dot: `small_job(model__residual="mhar")`."""

    def make(seed: int = 0, **fields: object) -> JobConfig:
        return job_from_fields(SMALL | {k.replace("__", "."): v for k, v in fields.items()}, seed)

    return make


@pytest.fixture(scope="session")
def small_data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return words_dataset(tmp_path_factory.mktemp("home"))
