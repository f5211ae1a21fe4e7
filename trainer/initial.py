"""What a job starts from: weights that are drawn, or those of a trained model."""

from collections.abc import Collection
from pathlib import Path

import torch

from headcount.trainer.config import JobConfig
from headcount.trainer.errors import UserError
from headcount.trainer.job_files.files import has_hash
from headcount.trainer.job_files.model_file import read_model
from headcount.trainer.job_files.model_header import STREAM, job_fields, routes
from headcount.trainer.model.transformer import Transformer


def start_model(config: JobConfig, device: torch.device, weights: Path | None = None) -> Transformer:
    """The model as training begins it, computing in the job's precision: drawn, or as `load_initial` says."""
    model = Transformer(config.model, config.data.context, config.seed, device)
    load_initial(model, config, weights)
    model.compute_dtype = torch.bfloat16 if config.train.precision == "bf16" else torch.float32
    return model


@torch.no_grad()
def load_initial(model: Transformer, config: JobConfig, file: Path | None) -> None:
    """Give `model` the weights of the file that `config.init.weights` names; nothing where it names none.

    The residual stream's own parameters are taken from a model of the same stream. Where it is another, they
    keep the values that they are made with, and the file's must have no effect: gates that are all zero.

    Raises `UserError` for a file that is missing, another one, or of another shape.
    """
    wanted = config.init.weights
    if not wanted:
        return
    if file is None or not has_hash(file, wanted):
        where = f"{file} is missing or another one" if file else "no file was given"
        raise UserError(f"init.weights: {where}; expected the weights with SHA-256 {wanted[:12]}…")
    tensors, _ = read_model(file)
    own = {name: parameter.detach() for name, parameter in model.named_parameters()}
    residual = job_fields(file)["model.residual"]
    if residual != config.model.residual:
        if routes(file):
            raise UserError(
                f"init.weights: {file} is a model of the residual stream {residual}, which "
                f"{config.model.residual} would lose; set model.residual: {residual}"
            )
        tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith(STREAM)}
        own = {name: parameter for name, parameter in own.items() if not name.startswith(STREAM)}
    _check_names(own.keys(), tensors.keys(), file)
    for name, tensor in tensors.items():
        if tensor.shape != own[name].shape:
            raise UserError(
                f"init.weights: {name} of {file} is {list(tensor.shape)}, the job's is "
                f"{list(own[name].shape)}; leave the model's shape out of the job, to take the file's"
            )
        own[name].copy_(tensor)


def _check_names(own: Collection[str], given: Collection[str], file: Path) -> None:
    if lacking := sorted(set(own) - set(given)):
        raise UserError(f"init.weights: {file} lacks {lacking[0]}, which the job's model has")
    if left := sorted(set(given) - set(own)):
        raise UserError(f"init.weights: {file} has {left[0]}, which the job's model lacks")
