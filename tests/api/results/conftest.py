"""A store in a file, and the same file asked by SQL alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from by_hand import ByHand

from headcount.orchestrator.store import Store, open_store


@pytest.fixture
def file_store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path / 'headcount.db'}")
    yield opened
    opened.close()


@pytest.fixture
def by_hand(file_store: Store) -> Iterator[ByHand]:
    found = ByHand(file_store)
    yield found
    found.connection.close()
