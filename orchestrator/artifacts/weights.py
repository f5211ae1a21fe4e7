"""Weights that jobs start from: put among the artifacts under their hash, for every node."""

import hashlib
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
        from headcount.trainer.job_files.checkpoint_model import model_of_checkpoint

        made = model_of_checkpoint(file, settings.artifacts / "weights")
        sha256 = publish_weights(made, settings)
        made.unlink()
        return sha256
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
