"""The model that a command names: by its file, its folder, or the beginning of its job's id."""

from pathlib import Path

from sqlalchemy import select

from headcount.orchestrator.artifacts.address import Artifacts
from headcount.orchestrator.following.overview import find_job
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import open_store
from headcount.orchestrator.store.models import Artifact, Job
from headcount.trainer.errors import UserError
from headcount.trainer.job_files.files import has_hash

MODEL_FILE = "model.safetensors"


def find_model(name: str, settings: Settings) -> Path:
    """The file of the model that `name` means; fetched first where artifacts lie at an address.

    Raises `UserError` where there is none, or where it is not the one that the store knows.
    """
    if (path := _named_file(name)) is not None:
        return path
    with open_store(settings).read() as session:
        job = find_job(session, name)
        kept = session.execute(
            select(Artifact.key, Artifact.sha256).where(Artifact.job_id == job.id, Artifact.kind == "model")
        ).one_or_none()
        short = job.id[:12]
        if kept is None:
            raise UserError(f"job {short} has no model here: {_lacking(job)}")
    key, digest = kept
    file = settings.artifacts / key
    if settings.artifacts_url is not None and not has_hash(file, digest):
        Artifacts(settings.artifacts_url).download(key, file)
    if not has_hash(file, digest):
        raise UserError(f"the model of job {short}, {file}, is missing or damaged")
    return file


def _lacking(job: Job) -> str:
    match job.state:
        case "finished":
            return "it was imported, which takes no weights along, or 'headcount gc' has deleted it"
        case "diverged":
            return "its loss diverged"
        case state:
            return f"it is {state}; its training must finish first"


def job_named(name: str, settings: Settings) -> str | None:
    """The id of the job that `name` means; None where it means a file. Raises `UserError`."""
    if _named_file(name) is not None:
        return None
    with open_store(settings).read() as session:
        return find_job(session, name).id


def _named_file(name: str) -> Path | None:
    path = Path(name).expanduser()
    if path.is_dir():
        path = path / MODEL_FILE
    if path.is_file():
        return path
    if path.suffix or len(path.parts) > 1:
        raise UserError(f"no file {path}; name a model.safetensors, its folder, or a job's id")
    return None
