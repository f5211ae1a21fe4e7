"""A bucket of its own for each test, at an S3 server that the tests of this folder share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import s3fs
from s3_server import Bucket, S3Server


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = S3Server(tmp_path_factory.mktemp("s3"))
    yield server
    server.close()


@pytest.fixture
def bucket(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bucket:
    s3fs.S3FileSystem.clear_instance_cache()  # one that was made for another endpoint is used again
    made = s3_server.make_bucket()
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made
