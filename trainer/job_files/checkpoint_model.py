"""The weights of a training checkpoint as a model's file, for what reads models: another job's start."""

import json
from pathlib import Path

import torch

from headcount.trainer.config import FIELDS, job_from_fields
from headcount.trainer.errors import UserError
from headcount.trainer.job_files.files import has_hash
from headcount.trainer.job_files.model_file import metadata_of, write_model


def model_of_checkpoint(checkpoint: Path, folder: Path) -> Path:
    """Write the weights in `step-N.pt` as a file of safetensors in `folder`, named after the content.

    They are those that training left at that step, not their average. Raises `UserError` where the statement
    beside the checkpoint is missing or of another file, and for a checkpoint of an ended job, which holds no
    weights.
    """
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
    metadata = metadata_of(config, owner["data fingerprint"], statement["step"])
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"{statement['sha256']}.safetensors"
    write_model(made, state["model"], metadata | {"headcount.weights": "trained"})
    return made
