"""The command that converts a model: needs neither Ray nor a store.

`headcount convert` is this, and with torch, transformers and safetensors alone it is

    python -m headcount.trainer.convert MODEL --out FOLDER
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from headcount.trainer.convert.conversion import Converted, convert
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
    parser.add_argument(
        "--json",
        action="store_true",
        help="Print what was measured as JSON; the lines go to standard error.",
    )
    given = parser.parse_args(arguments)
    if (given.model is None) == (given.random is None):
        raise UserError("name a MODEL to convert, or a shape with --random")
    if given.random is not None and given.to == "huggingface":
        raise UserError("--random goes to headcount and back by itself; leave out --to")
    for option in ("routing_heads", "block_size", "context"):
        value = getattr(given, option)
        if value is not None and value < 1:
            raise UserError(f"--{option.replace('_', '-')}: got {value}; expected 1 or more")
    device = _device(given.device)
    transformers = optional("transformers")
    transformers.utils.logging.disable_progress_bar()
    report: dict[str, Any] = {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    source, folder = given.model, given.out

    def tell(line: str) -> None:
        print(line, file=sys.stderr if given.json else sys.stdout, flush=True)

    if given.random is not None:
        folder = given.out / "headcount"
        source = given.out / "random"
        started = time.monotonic()
        write_random(source, given.family, given.random)
        seconds = time.monotonic() - started
        tell(f"random {source}: a {given.family} of {given.random}, in {seconds:.1f} s")
        report["random"] = {"family": given.family, "scale": given.random, "seconds": seconds}
    if given.to == "headcount":
        report |= _measured(_converted(source, folder, given, device, tell))
        source, folder = folder, given.out / "back"
    if given.to == "huggingface" or given.random is not None:
        started = time.monotonic()
        found = to_huggingface(source, folder, device=device, tell=tell)
        report["huggingface"] = {"seconds": time.monotonic() - started, **found}
    if given.json:
        print(json.dumps(report, indent=1))
    return 0


def _converted(
    source: Path, folder: Path, given: argparse.Namespace, device: torch.device, tell: Callable[[str], object]
) -> Converted:
    home = given.home or Path(os.environ.get("HEADCOUNT_HOME") or "~/.headcount")
    data = get_named(given.data, home.expanduser().absolute()) if given.data else None
    routing = Routing(given.residual, given.routing_heads, given.block_size)
    return convert(source, folder, routing, context=given.context, data=data, device=device, tell=tell)


def _measured(converted: Converted) -> dict[str, Any]:
    """What `--json` prints of a conversion."""
    names = ("parameters", "routing_parameters", "bytes", "seconds")
    checks = [asdict(check) for check in converted.checks]
    return {name: getattr(converted, name) for name in names} | {"checks": checks}


def _device(name: str) -> torch.device:
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise UserError("device cuda was asked for, but PyTorch finds no GPU; use auto or cpu")
    return torch.device("cuda" if available and name != "cpu" else "cpu")
