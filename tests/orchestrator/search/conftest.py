"""A store on one engine, for what is about the sweep alone."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headcount.orchestrator.store import Store, open_store


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(f"sqlite:///{tmp_path / 'headcount.db'}")) as opened:
        yield opened
