"""Keys at an address, with the same answers from a bucket, another fsspec store and a shared folder."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
import s3fs
from s3_server import Bucket

from headcount.orchestrator.artifacts.address import Artifacts, ArtifactsUnavailable
from headcount.orchestrator.artifacts.folder import FolderArtifacts


@pytest.fixture(params=["bucket", "memory", "folder", "local"])
def artifacts(request: pytest.FixtureRequest, bucket: Bucket, tmp_path: Path) -> Artifacts | FolderArtifacts:
    if request.param == "folder":
        (tmp_path / "a" / "b").mkdir(parents=True)
        return FolderArtifacts(tmp_path)
    urls = {"bucket": bucket.url, "memory": f"memory://{tmp_path.name}", "local": f"local://{tmp_path}"}
    return Artifacts(urls[request.param])


def test_what_is_written_is_read_listed_and_deleted(artifacts: Artifacts | FolderArtifacts) -> None:
    assert artifacts.read("a/b/one") is None
    artifacts.write("a/b/one", b"1")
    artifacts.write("a/b/two", b"22")
    assert artifacts.read("a/b/two") == b"22"
    assert artifacts.files("a") == {"a/b/one": 1, "a/b/two": 2}
    assert artifacts.files("a/c") == {}
    age = datetime.now(UTC) - (artifacts.changed("a/b/two") or datetime.max.replace(tzinfo=UTC))
    assert abs(age.total_seconds()) < 60
    assert artifacts.changed("a/b/gone") is None
    artifacts.delete(["a/b/one", "a/b/gone"])
    assert artifacts.files("a") == {"a/b/two": 2}


def test_files_go_there_and_come_back(bucket: Bucket, tmp_path: Path) -> None:
    artifacts = Artifacts(bucket.url)
    (tmp_path / "file").write_bytes(bytes(range(256)) * 1000)
    artifacts.upload(tmp_path / "file", "deep/in/it")
    artifacts.download("deep/in/it", tmp_path / "other" / "file")
    assert (tmp_path / "other" / "file").read_bytes() == (tmp_path / "file").read_bytes()
    with pytest.raises(ArtifactsUnavailable, match="deep/gone is gone"):
        artifacts.download("deep/gone", tmp_path / "other" / "gone")
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["file"]


def test_a_bucket_is_not_made(bucket: Bucket) -> None:
    artifacts = Artifacts("s3://nowhere-at-all/x")
    for use in (artifacts.check, lambda: artifacts.write("a", b"")):
        with pytest.raises(
            ArtifactsUnavailable, match="cannot use the artifacts at s3://nowhere-at-all/x: no"
        ):
            use()


def test_a_server_that_is_away_is_told_in_one_line(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    s3fs.S3FileSystem.clear_instance_cache()
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    with pytest.raises(ArtifactsUnavailable) as caught:
        Artifacts("s3://away/x").read("a")
    assert "cannot use the artifacts at s3://away/x: " in str(caught.value)
    assert "\n" not in str(caught.value)
