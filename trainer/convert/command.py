"""The command that converts a model: needs neither Ray nor a store.

`headcount convert` is this, and with torch, transformers and safetensors alone it is

    python -m headcount.trainer.convert MODEL --out FOLDER
"""

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from headcount.trainer.convert.conversion import convert
from headcount.trainer.convert.extras import optional
from headcount.trainer.convert.families import FAMILIES, Routing
from headcount.trainer.convert.huggingface import to_huggingface
from headcount.trainer.convert.random_checkpoint import write_random
from headcount.trainer.data.names import get_named
from headcount.trainer.errors import UserError
from headcount.trainer.scales import SCALES

DESCRIPTION = """Convert a pretrained Llama, Mistral, Qwen2 or Qwen3 to a model of ours with depth routing
that changes nothing yet; or, with --to huggingface, a model of ours to a folder that transformers loads.
Every conversion is checked, and nothing is left of one that fails."""


def main(arguments: Sequence[str], program: str = "python -m headcount.trainer.convert") -> int:
    """Convert what the arguments name; returns the exit code. Raises `UserError`."""
    parser = argparse.ArgumentParser(program, description=DESCRIPTION)
    parser.add_argument(
        "model",
        type=Path,
        metavar="MODEL",
        nargs="?",
        help="A folder in Hugging Face layout; with --to huggingface, a model.safetensors or its folder.",
    )
    parser.add_argument("--out", type=Path, required=True, help="The folder to write.")
    parser.add_argument("--to", choices=("headcount", "huggingface"), default="headcount")
    parser.add_argument("--residual", choices=("delta", "additive"), default="delta")
    parser.add_argument("--routing-heads", type=int, default=8, help="Slices of the width; default 8.")
    parser.add_argument(
        "--block-size", type=int, default=1, help="Sublayers of one source; 1, the default, routes by layer."
    )
    parser.add_argument("--context", type=int, help="Tokens a window; else the most that the model reads.")
    parser.add_argument("--data", metavar="NAME", help="A registered data set: what the probe reads.")
    parser.add_argument("--home", type=Path, help="Where data sets lie; else HEADCOUNT_HOME or ~/.headcount.")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="Of the checks.")
    parser.add_argument(
        "--random",
        choices=tuple(SCALES),
        metavar="SCALE",
        help="In place of MODEL: write a random checkpoint of that shape, convert it, and convert it back.",
    )
    parser.add_argument("--family", choices=FAMILIES, default="llama", help="Of --random.")
    given = parser.parse_args(arguments)
    if (given.model is None) == (given.random is None):
        raise UserError("name a MODEL to convert, or a shape with --random")
    for option in ("routing_heads", "block_size", "context"):
        value = getattr(given, option)
        if value is not None and value < 1:
            raise UserError(f"--{option.replace('_', '-')}: got {value}; expected 1 or more")
    device = _device(given.device)
    optional("transformers").utils.logging.disable_progress_bar()
    source, folder = given.model, given.out
    if given.random is not None:
        folder = given.out / "headcount"
        source = given.out / "random"
        started = time.monotonic()
        write_random(source, given.family, given.random)
        print(f"random {source}: a {given.family} of {given.random}, in {time.monotonic() - started:.1f} s")
    if given.to == "huggingface":
        to_huggingface(source, folder, device=device)
        return 0
    home = given.home or Path(os.environ.get("HEADCOUNT_HOME") or "~/.headcount")
    data = get_named(given.data, home.expanduser().absolute()) if given.data else None
    routing = Routing(given.residual, given.routing_heads, given.block_size)
    convert(source, folder, routing, context=given.context, data=data, device=device)
    if given.random is not None:
        to_huggingface(folder, given.out / "back", device=device)
    return 0


def _device(name: str) -> torch.device:
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise UserError("device cuda was asked for, but PyTorch finds no GPU; use auto or cpu")
    return torch.device("cuda" if available and name != "cpu" else "cpu")
