"""What a model's file tells of itself, in the format of `model_file`. Imports without torch."""

import json
from pathlib import Path
from typing import Any

from headcount.trainer.errors import UserError

MODEL_FILE = "model.safetensors"

LARGEST_HEADER = 100_000_000


def read_metadata(path: Path) -> dict[str, str]:
    """What the file tells of itself. Raises `UserError` for a file that is not one of ours."""
    try:
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > LARGEST_HEADER:
                raise ValueError
            metadata: dict[str, str] = json.loads(file.read(length))["__metadata__"]
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is not a whole safetensors file of ours; copy it again") from error
    return metadata


def job_fields(path: Path) -> dict[str, Any]:
    """Every field of the job that the model in `path` is of, by its dotted name, and its `seed`.

    Raises `UserError` for a file that is not one of ours.
    """
    try:
        fields: dict[str, Any] = json.loads(read_metadata(path)["headcount.job"])
    except (KeyError, ValueError) as error:
        raise UserError(f"{path} does not tell its job; is it a model of Headcount's?") from error
    return fields
