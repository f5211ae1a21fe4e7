"""The command that probes a model: needs neither Ray nor a store.

`headcount probe` also keeps what it finds of a stored job; with PyTorch and NumPy alone it is

    python -m headcount.trainer.probe MODEL
"""

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

from headcount.trainer.data import open_dataset
from headcount.trainer.device import choose_device, describe, peak_memory_bytes, reset_peak_memory
from headcount.trainer.errors import UserError
from headcount.trainer.execution import Execution
from headcount.trainer.job_files.model_file import MODEL_FILE, job_of
from headcount.trainer.job_files.model_header import read_metadata
from headcount.trainer.probe.figures import Settings
from headcount.trainer.probe.running import probe_file


def main(arguments: Sequence[str], program: str = "python -m headcount.trainer.probe") -> int:
    """Probe what the arguments name; returns the exit code. Raises `UserError`."""
    parser = argparse.ArgumentParser(program, description="What a trained model reads of its depth.")
    parser.add_argument("model", type=Path, metavar="MODEL", help="A model.safetensors, or its folder.")
    parser.add_argument("--home", type=Path, help="Where data sets lie; else HEADCOUNT_HOME or ~/.headcount.")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    for option, about in (
        ("windows", "Of validation text."),
        ("slices", "Of the width."),
        ("draws", "Random queries a site, for the null."),
        ("seed", "Of these draws."),
    ):
        default = getattr(Settings, option)
        parser.add_argument(f"--{option}", type=int, default=default, help=f"{about} {default} by default.")
    parser.add_argument("--json", action="store_true", help="Print every site's figures too, as JSON.")
    given = parser.parse_args(arguments)
    for option, least in (("windows", 2), ("slices", 1), ("draws", 1), ("seed", 0)):
        if (value := getattr(given, option)) < least:
            raise UserError(f"--{option}: got {value}; expected {least} or more")
    file = given.model / MODEL_FILE if given.model.is_dir() else given.model
    metadata = read_metadata(file)
    execution = Execution(device=given.device)
    device = choose_device(job_of(metadata), execution)
    home = given.home or Path(os.environ.get("HEADCOUNT_HOME") or "~/.headcount")
    if not (fingerprint := metadata["headcount.fingerprint"]):
        raise UserError("the model has no data set, so no text of its own; convert it with --data NAME")
    dataset = open_dataset(fingerprint, home.expanduser().absolute())
    reset_peak_memory(device)
    started = time.monotonic()
    settings = Settings(given.windows, given.slices, given.draws, given.seed)
    figures = probe_file(file, dataset, settings, str(device))
    seconds, memory = time.monotonic() - started, peak_memory_bytes(device)
    if given.json:
        cost = {"seconds": seconds, "peak_memory_bytes": memory}
        where = {"environment": describe(device, execution, 1, None)}
        print(json.dumps(figures.to_record() | cost | where, indent=1))
        return 0
    print(f"over {figures.tokens:,} tokens, {figures.settings.slices} slices, {seconds:.1f} s:")
    for name, value in figures.measurements().items():
        print(f"  {name} {'not known' if value is None else f'{value:.4f}'}")
    return 0
