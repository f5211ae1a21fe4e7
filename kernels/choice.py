"""Which implementation runs, and why."""

import dataclasses
import os
from dataclasses import dataclass, field
from difflib import get_close_matches

import torch
from torch import Tensor

IMPLEMENTATIONS = ("auto", "reference", "fused", "two_phase")

LARGEST_WIDTH = 8192


@dataclass(frozen=True)
class Choice:
    """The implementation picked, the reason, and its launch parameters where it has a table of them."""

    implementation: str
    reason: str
    launch: dict[str, int | bool] = field(default_factory=dict)


def choose(implementation: str, source: Tensor, *, one_site: bool) -> Choice:
    """Pick an implementation for sources like `source`; `one_site` where sites are read one by one.

    Raises ValueError when the implementation asked for is unknown or cannot run here.
    """
    check_name(implementation)
    if implementation == "reference":
        return Choice("reference", "asked for")
    obstacle = _why_no_kernels(source)
    if implementation == "auto":
        if obstacle or source.device.type != "cuda":
            return Choice("reference", obstacle or "the interpreter of kernels is for tests")
        obstacle = _why_no_two_phase(one_site)
        if obstacle:
            return Choice("fused", obstacle)
        return Choice("two_phase", "fewest bytes for a whole model")
    if not obstacle and implementation == "two_phase":
        obstacle = _why_no_two_phase(one_site)
    if obstacle:
        raise ValueError(f"implementation={implementation!r} cannot run: {obstacle}; choose 'auto'")
    return Choice(implementation, "asked for")


def with_launch(choice: Choice, source: Tensor, heads: int) -> Choice:
    """The choice and its row of the launch table, for sources like `source` [..., d]."""
    if choice.implementation == "reference":
        return choice
    from headcount.kernels.launch import launch_for, site_launch_for
    from headcount.kernels.tiles import Tiles

    tiles = Tiles.of(source.shape[-1], heads)
    row = launch_for(tiles, source) if choice.implementation == "two_phase" else site_launch_for(tiles)
    return dataclasses.replace(choice, launch=dataclasses.asdict(row))


def check_name(implementation: str) -> None:
    """Raise ValueError unless `implementation` is one of `IMPLEMENTATIONS`."""
    if implementation not in IMPLEMENTATIONS:
        close = get_close_matches(implementation, IMPLEMENTATIONS, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(IMPLEMENTATIONS)}"
        raise ValueError(f"implementation {implementation!r} is unknown: {hint}")


def _why_no_kernels(source: Tensor) -> str:
    """What keeps the Triton kernels from running, or nothing."""
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if source.device.type != "cuda" and not interpreted:
        return f"the kernels need CUDA and the sources are on {source.device.type}"
    if source.dtype not in (torch.bfloat16, torch.float16, torch.float32):
        return f"the kernels take no {str(source.dtype).removeprefix('torch.')} sources"
    if source.shape[-1] > LARGEST_WIDTH:
        return f"the kernels take widths up to {LARGEST_WIDTH}, not {source.shape[-1]}"
    return ""


def _why_no_two_phase(one_site: bool) -> str:
    """What keeps two_phase from running, or nothing."""
    if one_site:
        return "two_phase serves a whole model with full routing, and here each site is read by itself"
    if torch.compiler.is_compiling():
        return "torch.compile cannot trace two_phase's own buffers (compile the sublayers instead)"
    return ""
