"""What a conversion must hold, measured on the files that were written; one line each."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
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


@dataclass
class Check:
    """One check that held."""

    name: str
    seconds: float = 0.0
    peak_memory_bytes: float = 0.0
    """Of the GPU's allocator, or of the whole process on the CPU."""
    found: dict[str, float] = field(default_factory=dict)
    """What was measured, by its name."""


def check_conversion(
    file: Path, source: Path, checkpoint: Checkpoint, device: torch.device, tell: Tell
) -> list[Check]:
    """Every check of the model in `file`, which was converted from the checkpoint in `source`.

    Raises `CheckFailed` for the first that does not hold.
    """
    checks: list[Check] = []
    with _measured("weights", device, checks) as check:
        check_weights(file, checkpoint)
    tell(
        "check  weights equal to the checkpoint's; beside them routing alone, all at its start: "
        f"{_cost(check)}"
    )
    model, metadata = load_model(file, device)
    job = job_of(metadata)
    tokens = random_tokens(job, device)
    with exact_mode(Execution(threads=torch.get_num_threads())), torch.inference_mode():
        for dtype in (torch.float32, torch.bfloat16):
            with _measured(f"additive {_name(dtype)}", device, checks) as check:
                check.found = {
                    "logits": float(tokens.numel() * job.model.vocab_size),
                    "different": float(check_identity(model, job, tokens, dtype)),
                }
            tell(
                f"check  logits in {_name(dtype)} equal to the additive stream's, bit for bit: {_cost(check)}"
            )
    # inexact: code that is not ours may ask for what PyTorch has no deterministic way of
    with exact_mode(Execution(threads=torch.get_num_threads(), exact=False)), torch.inference_mode():
        with _measured("transformers", device, checks) as check:
            check.found = check_against_transformers(model, source, tokens, tell)
        tell(f"check  logits compared with those of transformers: {_cost(check)}")
    return checks


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


def check_identity(model: Transformer, job: JobConfig, tokens: Tensor, dtype: torch.dtype) -> int:
    """The model computes what the additive one with the same weights does: the logits that differ, 0."""
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
    return different


def check_against_transformers(
    model: Transformer, folder: Path, tokens: Tensor, tell: Tell
) -> dict[str, float]:
    """The model computes what `transformers` does with the folder: to `EXACT` in float64, and to rounding in
    float32 and bfloat16. The model is left in float64. Returns the differences."""
    found: dict[str, float] = {}
    exact = reference_logits(folder, tokens, torch.float64)
    for dtype in (torch.float32, torch.bfloat16):
        theirs = _error(reference_logits(folder, tokens, dtype), exact)
        ours = _error(logits(model, tokens, dtype), exact)
        found |= {f"our rounding {_name(dtype)}": ours, f"their rounding {_name(dtype)}": theirs}
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
    return found | {"largest difference float64": largest}


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
def _measured(name: str, device: torch.device, checks: list[Check]) -> Iterator[Check]:
    """Add a check to `checks`, with what it took."""
    reset_peak_memory(device)
    started = time.monotonic()
    check = Check(name)
    yield check
    check.seconds, check.peak_memory_bytes = time.monotonic() - started, peak_memory_bytes(device)
    checks.append(check)


def _cost(check: Check) -> str:
    return f"{check.seconds:.1f} s, peak memory {check.peak_memory_bytes / 1e9:.2f} GB"


def _error(found: Tensor, exact: Tensor) -> float:
    return float((found.double() - exact).square().mean().sqrt())


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
