"""A job's fields where it starts from a trained model. Imports without torch."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headcount.trainer.errors import FieldError
from headcount.trainer.job_files.model_header import MODEL_FILE, job_fields
from headcount.trainer.residuals.registry import stream_fields

INIT_FROM = "init.from"
"""Names the model's file, its folder or, in a sweep, a job. It stands for `init.weights`, the hash of the
content, which alone is part of a job's id."""

_OWN = {"model.scale", "model.residual"} | {f"model.{name}" for name in stream_fields()}
"""Fields of the model that the new job decides, whatever the weights' model had."""


def model_fields(source: Mapping[str, Any]) -> dict[str, Any]:
    """Of the job `source` that weights are of, the fields of the model that go with them."""
    return {n: v for n, v in source.items() if n.startswith("model.") and n not in _OWN}


def started_from(fields: Mapping[str, Any], folder: Path) -> tuple[dict[str, Any], Path | None]:
    """The fields with what their `init.from` stands for, and its file; relative paths start in `folder`.

    Raises `FieldError` where there is no such file.
    """
    given = dict(fields)
    source = given.pop(INIT_FROM, None)
    if source is None:
        return given, None
    if not isinstance(source, str):
        raise FieldError(INIT_FROM, f"got {source!r}; expected a model's file, or its folder")
    file = folder / Path(source).expanduser()
    if file.is_dir():
        file = file / MODEL_FILE
    if not file.is_file():
        raise FieldError(INIT_FROM, f"no file {file}; expected a model's file, or its folder")
    with open(file, "rb") as content:
        sha256 = hashlib.file_digest(content, "sha256").hexdigest()
    return {**model_fields(job_fields(file)), **given, "init.weights": sha256}, file
