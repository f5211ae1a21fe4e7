"""Whole curves: what a job left as files, given by kind. No path or key comes from the client."""

import hashlib
import io
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Depends, Path, Request, Response

from headcount.api.caching import NOT_MODIFIED, check_cached
from headcount.api.dependencies import JobId, SettingsDep, StoreDep, no_query
from headcount.api.problems import responses
from headcount.api.results import NotFoundError
from headcount.api.results.artifacts import ArtifactView, artifact_key, artifacts
from headcount.api.security import needs
from headcount.orchestrator.artifacts.folder import open_artifacts
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store

router = APIRouter(
    prefix="/api/v1/jobs/{job}",
    tags=["jobs"],
    responses=responses(404) | NOT_MODIFIED,
    dependencies=[Depends(no_query)],
)

Kind = Literal["curve", "routing"]
_FILES = {
    "curve": ("training_loss.npy", "application/octet-stream"),
    "routing": ("routing.jsonl", "application/x-ndjson"),
}
"""Kind to the name and media type of its file."""


@dataclass(frozen=True)
class ArtifactList:
    """The files of a job, by kind."""

    items: tuple[ArtifactView, ...]


@router.get("/artifacts", openapi_extra=needs("read"))
def list_artifacts(store: StoreDep, job: JobId) -> ArtifactList:
    """The files that a job left, with their hashes."""
    with store.read() as session:
        return ArtifactList(artifacts(session, job))


def _file(*media: str) -> dict[int | str, dict[str, Any]]:
    content = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in media}
    return {200: {"description": "The file.", "content": content}}


@router.get(
    "/artifacts/{kind}",
    response_class=Response,
    responses=_file("application/octet-stream", "application/x-ndjson"),
    openapi_extra=needs("read"),
)
def get_artifact(
    request: Request,
    store: StoreDep,
    settings: SettingsDep,
    job: JobId,
    kind: Annotated[Kind, Path(description="The loss of every update, or how sites route, a line a step.")],
) -> Response:
    """A file as the job left it: `curve` is a float32 array in NumPy's format, `routing` has JSON lines."""
    name, media = _FILES[kind]
    headers, content = _read(request, store, settings, job, kind, kind)
    headers["Content-Disposition"] = f'attachment; filename="{job[:12]}-{name}"'
    return Response(content, headers=headers, media_type=media)


@router.get(
    "/training-loss.csv",
    response_class=Response,
    responses=_file("text/csv"),
    openapi_extra=needs("read"),
)
def get_training_loss(request: Request, store: StoreDep, settings: SettingsDep, job: JobId) -> Response:
    """The training loss of every update, not thinned; empty where it was not finite."""
    headers, content = _read(request, store, settings, job, "curve", "csv")
    losses = np.load(io.BytesIO(content), allow_pickle=False)
    rows = (f"{i},{loss!s}\n" if np.isfinite(loss) else f"{i},\n" for i, loss in enumerate(losses, start=1))
    return Response("update,loss\n" + "".join(rows), headers=headers, media_type="text/csv")


def _read(
    request: Request, store: Store, settings: Settings, job: str, kind: str, form: str
) -> tuple[dict[str, str], bytes]:
    """The headers that know the answer again, and the file's content, with the hash that the store has."""
    with store.read() as session:
        key, sha256 = artifact_key(session, job, kind)
    headers = check_cached(request, sha256, form)
    content = open_artifacts(settings).read(key)
    if content is None or hashlib.sha256(content).hexdigest() != sha256:
        state = "is not there any more" if content is None else "is not as the job left it"
        raise NotFoundError(f"the file of the kind {kind!r} of job {job} {state}")
    return headers, content
