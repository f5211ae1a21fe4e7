"""What a model's file tells of itself, in the format of `model_file`. Imports without torch."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from headcount.trainer.errors import UserError

MODEL_FILE = "model.safetensors"

LARGEST_HEADER = 100_000_000

STREAM = "stream."
"""Begins the names of a residual stream's own parameters."""


def read_metadata(path: Path) -> dict[str, str]:
    """What the file tells of itself. Raises `UserError` for a file that is not one of ours."""
    with _opened(path) as file:
        metadata: dict[str, str] = _read_header(file)["__metadata__"]
    return metadata


def routes(path: Path) -> bool:
    """Whether the residual stream of the model in `path` has an effect: it has parameters of its own, and
    gates, if any, that are not all zero. Raises `UserError` for a file that is not one of ours.
    """
    with _opened(path) as file:
        header = _read_header(file)
        start = file.tell()
        own = [name for name in header if name.startswith(STREAM)]
        gates = [name for name in own if name.startswith(f"{STREAM}gates.")]
        for name in gates:
            begin, end = header[name]["data_offsets"]
            file.seek(start + begin)
            if any(file.read(end - begin)):
                return True
    return bool(own) and not gates


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    try:
        with open(path, "rb") as file:
            yield file
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is not a whole safetensors file of ours; copy it again") from error


def _read_header(file: IO[bytes]) -> dict[str, Any]:
    length = int.from_bytes(file.read(8), "little")
    if length > LARGEST_HEADER:
        raise ValueError
    header: dict[str, Any] = json.loads(file.read(length))
    return header


def job_fields(path: Path) -> dict[str, Any]:
    """Every field of the job that the model in `path` is of, by its dotted name, and its `seed`.

    Raises `UserError` for a file that is not one of ours.
    """
    try:
        fields: dict[str, Any] = json.loads(read_metadata(path)["headcount.job"])
    except (KeyError, ValueError) as error:
        raise UserError(f"{path} does not tell its job; is it a model of Headcount's?") from error
    return fields
