"""Weights that jobs start from: put among the artifacts under their hash, for every node."""

import hashlib
import json
from pathlib import Path

from headcount.orchestrator.artifacts.address import Artifacts
from headcount.orchestrator.artifacts.attempts import link
from headcount.orchestrator.settings import Settings
from headcount.trainer.errors import UserError
from headcount.trainer.job_files.files import has_hash
from headcount.trainer.job_files.model_header import job_fields


def weights_key(sha256: str) -> str:
    return f"weights/{sha256[:2]}/{sha256}.safetensors"


def publish_weights(file: Path, settings: Settings) -> str:
    """Put a model's file, or a training checkpoint's weights, among the artifacts; the content's SHA-256.

    Raises `UserError` for a file that is neither, and `ArtifactsUnavailable`.
    """
    if file.suffix == ".pt":
        file = _as_model(file, settings.artifacts / "weights")
    job_fields(file)
    try:
        with open(file, "rb") as content:
            sha256 = hashlib.file_digest(content, "sha256").hexdigest()
        kept = settings.artifacts / weights_key(sha256)
        if not has_hash(kept, sha256):
            link(file, kept)
    except OSError as error:
        raise UserError(f"cannot keep {file} in {settings.artifacts}: {error.strerror}") from error
    if settings.artifacts_url is not None:
        artifacts = Artifacts(settings.artifacts_url)
        if not artifacts.files(weights_key(sha256)):
            artifacts.upload(kept, weights_key(sha256))
    return sha256


def find_weights(sha256: str, artifacts: Path, remote: Artifacts | None) -> Path:
    """The file of these weights on this node, fetched where nodes share no disk.

    Raises `ArtifactsUnavailable`; whether it is there and whole is for the trainer to say.
    """
    file = artifacts / weights_key(sha256)
    if remote is not None and not has_hash(file, sha256):
        remote.download(weights_key(sha256), file)
    return file


def _as_model(checkpoint: Path, folder: Path) -> Path:
    """The weights of a training checkpoint as a model's file in `folder`."""
    import torch

    from headcount.trainer.config import FIELDS, job_from_fields
    from headcount.trainer.job_files.model_file import metadata_of, write_model

    try:
        statement = json.loads(checkpoint.with_suffix(".json").read_text(encoding="utf-8"))
        owner = statement["owner"]
        fields = {name: value for name, value in owner.items() if name in FIELDS}
        config = job_from_fields(fields, owner["seed"])
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{checkpoint} has no statement beside it that tells its job: {error}") from error
    if not has_hash(checkpoint, statement["sha256"]):
        raise UserError(f"{checkpoint} is missing or damaged")
    state = torch.load(checkpoint, map_location="cpu", weights_only=True)
    if "model" not in state:
        raise UserError(f"{checkpoint} is of an ended job and holds no weights; take its model.safetensors")
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"{statement['sha256']}.safetensors"
    write_model(made, state["model"], metadata_of(config, owner["data fingerprint"], statement["step"]))
    return made
