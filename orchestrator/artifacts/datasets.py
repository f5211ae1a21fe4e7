"""Data sets at the artifacts' address: put there once, and fetched by every node that trains on them.

`data/FINGERPRINT/` holds the shards and, written last, the manifest; `data/names/NAME.json` what a name is.
"""

import json
from dataclasses import replace
from pathlib import Path

from headcount.orchestrator.artifacts.address import Artifacts
from headcount.orchestrator.settings import Settings
from headcount.trainer.config import DataConfig
from headcount.trainer.data import Dataset, open_dataset, prepare
from headcount.trainer.data.files import writing
from headcount.trainer.data.manifest import MANIFEST_FILE, Manifest, dataset_folder, is_complete
from headcount.trainer.data.names import find_named
from headcount.trainer.data.placing import place, scratch_folder
from headcount.trainer.data.preparation import check_enough
from headcount.trainer.data.shards import Shard
from headcount.trainer.data.sources import SOURCES
from headcount.trainer.data.verification import verify
from headcount.trainer.errors import UserError


def prepare_for_all(config: DataConfig, settings: Settings) -> Manifest:
    """As `trainer.data.prepare`, so that every node of the cluster finds the data set.

    With a shared disk that is the home. Otherwise the data set is put at the artifacts' address; a registered
    one that is only there is taken from there, without its shards. Raises `ArtifactsUnavailable` too.
    """
    if settings.artifacts_url is None:
        return prepare(config, settings.home)
    artifacts = Artifacts(settings.artifacts_url)
    if config.source in SOURCES:
        manifest = prepare(config, settings.home)
        publish(manifest, settings.home, artifacts)
        return manifest
    is_here = find_named(config.source, settings.home) is not None
    if not is_here and (there := _find_named(config.source, artifacts)) is not None:
        check_enough(there, config)
        return there
    manifest = prepare(config, settings.home)
    publish(manifest, settings.home, artifacts, config.source)
    return manifest


def publish(manifest: Manifest, home: Path, artifacts: Artifacts, name: str | None = None) -> bool:
    """Put a data set that lies under `home` at the address, as `name` where one is given.

    Whether its files had to be sent. Raises `ArtifactsUnavailable`.
    """
    key = f"data/{manifest.fingerprint}"
    is_new = artifacts.read(f"{key}/{MANIFEST_FILE}") is None
    if is_new:
        folder = dataset_folder(manifest.fingerprint, home)
        sides: dict[str, tuple[Shard, ...]] = {}
        for side in ("train", "validation"):
            shards = []
            for number, shard in enumerate(getattr(manifest, side)):
                file = f"{side}-{number:05d}.bin"
                artifacts.upload(folder / shard.file, f"{key}/{file}")
                shards.append(replace(shard, file=file))
            sides[side] = tuple(shards)
        sent = replace(manifest, train=sides["train"], validation=sides["validation"])
        artifacts.write(f"{key}/{MANIFEST_FILE}", sent.to_json().encode())
    if name is not None:
        entry = json.dumps({"fingerprint": manifest.fingerprint})
        artifacts.write(f"data/names/{name}.json", entry.encode())
    return is_new


def dataset_of(fingerprint: str, settings: Settings) -> Dataset:
    """The data set of that fingerprint, fetched where nodes share no disk. Raises as `fetch_dataset`, and
    `UserError` for none, which a model has that was converted without one.
    """
    if not fingerprint:
        raise UserError("the model has no data set, so no text of its own; convert it with --data NAME")
    if settings.artifacts_url is not None:
        fetch_dataset(fingerprint, settings.home, Artifacts(settings.artifacts_url))
    return open_dataset(fingerprint, settings.home)


def fetch_dataset(fingerprint: str, home: Path, artifacts: Artifacts) -> None:
    """Bring a data set under `home`, unless it is there; every shard is held against its hash.

    Raises `UserError` where it is not at the address either, and `ArtifactsUnavailable`.
    """
    if is_complete(dataset_folder(fingerprint, home)):
        return
    manifest = _manifest(fingerprint, artifacts)
    if manifest is None:
        raise UserError(
            f"the data set {fingerprint[:12]} is neither under {home} nor at {artifacts.url}; "
            "headcount data publish NAME puts it there"
        )
    with writing(home), scratch_folder(home) as scratch:
        for shard in (*manifest.train, *manifest.validation):
            artifacts.download(f"data/{fingerprint}/{shard.file}", scratch / shard.file)
        verify(manifest, scratch, lambda tokens: None)
        place(scratch, manifest, home)


def _find_named(name: str, artifacts: Artifacts) -> Manifest | None:
    """What `name` stands for at the address; none where it stands for nothing."""
    if "/" in name or not (entry := artifacts.read(f"data/names/{name}.json")):
        return None
    manifest = _manifest(json.loads(entry)["fingerprint"], artifacts)
    return replace(manifest, name=name) if manifest else None


def _manifest(fingerprint: str, artifacts: Artifacts) -> Manifest | None:
    text = artifacts.read(f"data/{fingerprint}/{MANIFEST_FILE}")
    return Manifest.from_json(text.decode()) if text else None
