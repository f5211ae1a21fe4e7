"""Data sets that are put at an address once and found by machines that share no disk."""

from pathlib import Path

import pytest
from homes import write_text
from s3_server import Bucket

from headcount.orchestrator.artifacts.address import Artifacts
from headcount.orchestrator.artifacts.datasets import dataset_of, fetch_dataset, prepare_for_all, publish
from headcount.orchestrator.settings import Settings
from headcount.trainer.config import DataConfig
from headcount.trainer.data import Manifest, open_dataset
from headcount.trainer.data.building import build
from headcount.trainer.data.names import get_named
from headcount.trainer.data.registration import register
from headcount.trainer.data.workers import Recipe
from headcount.trainer.errors import UserError


@pytest.fixture
def prepared(tmp_path: Path) -> Manifest:
    """A data set that is registered as `prose` under `tmp_path / "here"`."""
    write_text(tmp_path / "text")
    return build("prose", (str(tmp_path / "text"),), tmp_path / "here", Recipe("bytes"), workers=1)


def settings(home: Path, bucket: Bucket) -> Settings:
    return Settings(home, "", home / "artifacts", bucket.url)


def test_a_machine_without_the_files_plans_and_another_trains(
    tmp_path: Path, bucket: Bucket, prepared: Manifest
) -> None:
    artifacts, config = Artifacts(bucket.url), DataConfig(source="prose", context=64)
    with pytest.raises(UserError, match="unknown data set 'prose'"):
        prepare_for_all(config, settings(tmp_path / "there", bucket))
    assert publish(prepared, tmp_path / "here", artifacts, "prose")
    assert not publish(prepared, tmp_path / "here", artifacts, "prose")
    found = prepare_for_all(config, settings(tmp_path / "there", bucket))
    assert (found.name, found.fingerprint) == ("prose", prepared.fingerprint)
    assert not (tmp_path / "there").exists()
    fetch_dataset(prepared.fingerprint, tmp_path / "there", artifacts)
    fetch_dataset(prepared.fingerprint, tmp_path / "there", artifacts)
    third = dataset_of(prepared.fingerprint, settings(tmp_path / "third", bucket))
    batches = [
        dataset.batch(0, 3, 2, 64)
        for dataset in (open_dataset(prepared.fingerprint, tmp_path / "here"), third)
    ]
    assert (batches[0] == batches[1]).all()


def test_a_set_that_was_registered_in_place_is_sent_with_its_files(
    tmp_path: Path, bucket: Bucket, prepared: Manifest
) -> None:
    folder = tmp_path / "here" / "data" / prepared.fingerprint
    register("again", [str(folder)], tmp_path / "other")
    prepare_for_all(DataConfig(source="again", context=64), settings(tmp_path / "other", bucket))
    fetch_dataset(prepared.fingerprint, tmp_path / "third", Artifacts(bucket.url))
    shards = open_dataset(prepared.fingerprint, tmp_path / "third").manifest.train
    assert [Path(shard.file).name for shard in shards] == [shard.file for shard in shards]
    assert get_named("again", tmp_path / "other").fingerprint == prepared.fingerprint


def test_a_set_that_is_nowhere_or_damaged_is_named(
    tmp_path: Path, bucket: Bucket, prepared: Manifest
) -> None:
    artifacts = Artifacts(bucket.url)
    with pytest.raises(UserError, match=r"neither under .*there nor at s3://.*headcount data publish NAME"):
        fetch_dataset(prepared.fingerprint, tmp_path / "there", artifacts)
    publish(prepared, tmp_path / "here", artifacts)
    key = f"data/{prepared.fingerprint}/train-00000.bin"
    content = artifacts.read(key)
    assert content is not None
    artifacts.write(key, content[:-1] + b"?")
    with pytest.raises(UserError, match="holds other tokens than its manifest states"):
        fetch_dataset(prepared.fingerprint, tmp_path / "there", artifacts)
    assert [path.name for path in (tmp_path / "there" / "data").iterdir()] == []
