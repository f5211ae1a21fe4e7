"""A store on one engine, for what is about the sweep alone."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headcount.orchestrator.store import Store, open_store


@pytest.fixture
def sqlite(tmp_path: Path, sqlite_file: Path) -> Iterator[Store]:
    shutil.copy(sqlite_file, tmp_path)
    with closing(open_store(f"sqlite:///{tmp_path / 'headcount.db'}")) as opened:
        yield opened
