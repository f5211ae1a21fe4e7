"""A Ray cluster of real nodes, and a home whose commands use it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from homes import Home
from ray_nodes import Nodes, ray_nodes


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    with ray_nodes() as made:
        yield made


@pytest.fixture
def home(tmp_path: Path, nodes: Nodes) -> Iterator[Home]:
    made = Home(tmp_path / "home", {"RAY_ADDRESS": nodes.address})
    yield made
    made.stop_all()
