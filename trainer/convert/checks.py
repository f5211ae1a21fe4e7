"""What a conversion must hold, measured on the files that were written; one line each."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from headcount.trainer.config import JobConfig
from headcount.trainer.convert.checkpoint import Checkpoint
from headcount.trainer.convert.names import huggingface_name, is_routing
from headcount.trainer.convert.reference import reference_logits
from headcount.trainer.device import peak_memory_bytes, reset_peak_memory
from headcount.trainer.errors import UserError
from headcount.trainer.exact import exact_mode
from headcount.trainer.execution import Execution
from headcount.trainer.job_files.model_file import job_of, load_model
from headcount.trainer.model.transformer import Transformer

WINDOWS, TOKENS = 2, 64
"""Of random tokens, on which logits are compared."""

EXACT = 1e-10
"""Largest difference of a logit in float64."""

ROUNDING = 2.0
"""Most that our rounding error (root mean square, against float64 logits) may be, in theirs."""

Tell = Callable[[str], object]


class CheckFailed(UserError):
    """A check of a conversion that does not hold; the message says which, and by how much."""


def check_conversion(
    file: Path, source: Path, checkpoint: Checkpoint, device: torch.device, tell: Tell
) -> None:
    """Every check of the model in `file`, which was converted from the checkpoint in `source`.

    Raises `CheckFailed` for the first that does not hold.
    """
    with _measured(
        "weights equal to the checkpoint's; beside them routing alone, all at its start", device, tell
    ):
        check_weights(file, checkpoint)
    model, metadata = load_model(file, device)
    job = job_of(metadata)
    tokens = random_tokens(job, device)
    with exact_mode(Execution(threads=torch.get_num_threads())), torch.inference_mode():
        for dtype in (torch.float32, torch.bfloat16):
            with _measured(
                f"logits in {_name(dtype)} equal to the additive stream's, bit for bit", device, tell
            ):
                check_identity(model, job, tokens, dtype)
        with _measured("logits compared with those of transformers", device, tell):
            check_against_transformers(model, source, tokens, tell)


def random_tokens(job: JobConfig, device: torch.device) -> Tensor:
    """[windows, tokens], the same for every model of so many ids."""
    shape = WINDOWS, min(TOKENS, job.data.context)
    return torch.randint(job.model.vocab_size, shape, generator=torch.Generator().manual_seed(0)).to(device)


def check_weights(file: Path, checkpoint: Checkpoint) -> None:
    """The file holds the checkpoint's bits, and routing that starts at zero with key-norm weights of one."""
    for name, tensor in Checkpoint(file.parent).items():
        if not is_routing(name):
            fits = torch.equal(tensor, checkpoint[huggingface_name(name)])
        else:
            fits = bool((tensor == float(".key_weights." in name)).all())
        if not fits:
            raise CheckFailed(f"{file}: {name} is not what it was converted from")


def check_identity(model: Transformer, job: JobConfig, tokens: Tensor, dtype: torch.dtype) -> None:
    """The model computes what the additive one with the same weights does."""
    plain_job = replace(job.model, residual="additive")
    plain = Transformer(plain_job, 1, None, torch.device("meta"))
    shared = {name: weight for name, weight in model.state_dict().items() if not is_routing(name)}
    plain.load_state_dict(shared, assign=True)
    plain.rotation = model.rotation
    found = [logits(each, tokens, dtype) for each in (model, plain)]
    different = int((found[0] != found[1]).sum())
    if different:
        raise CheckFailed(
            f"{different:,} of {found[0].numel():,} logits in {_name(dtype)} differ from those of the "
            "additive stream"
        )


def check_against_transformers(model: Transformer, folder: Path, tokens: Tensor, tell: Tell) -> None:
    """The model computes what `transformers` does with the folder: to `EXACT` in float64, and to rounding in
    float32 and bfloat16. The model is left in float64."""
    exact = reference_logits(folder, tokens, torch.float64)
    for dtype in (torch.float32, torch.bfloat16):
        theirs = _error(reference_logits(folder, tokens, dtype), exact)
        ours = _error(logits(model, tokens, dtype), exact)
        tell(
            f"check  logits in {_name(dtype)} against transformers: our rounding {ours:.2e} (rms), "
            f"theirs {theirs:.2e}"
        )
        if not ours <= ROUNDING * theirs:
            raise CheckFailed(
                f"logits in {_name(dtype)} are {ours:.2e} (rms) from those in float64, and transformers' "
                f"{theirs:.2e}; expected at most {ROUNDING:g} times theirs"
            )
    largest = float((logits(model.double(), tokens, torch.float64) - exact).abs().max())
    tell(f"check  logits in float64 against transformers: {largest:.1e} apart at most")
    if not largest <= EXACT:
        raise CheckFailed(
            f"logits in float64 are up to {largest:.1e} from transformers'; expected {EXACT:g} at most"
        )


def logits(model: Transformer, tokens: Tensor, dtype: torch.dtype) -> Tensor:
    """What the model computes in `dtype`, from weights in their own precision."""
    before = model.compute_dtype
    model.compute_dtype = dtype
    try:
        found: Tensor = model(tokens)
    finally:
        model.compute_dtype = before
    return found


@contextmanager
def _measured(what: str, device: torch.device, tell: Tell) -> Iterator[None]:
    reset_peak_memory(device)
    started = time.monotonic()
    yield
    seconds = time.monotonic() - started
    tell(f"check  {what}: {seconds:.1f} s, peak memory {peak_memory_bytes(device) / 1e9:.2f} GB")


def _error(found: Tensor, exact: Tensor) -> float:
    return float((found.double() - exact).square().mean().sqrt())


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
