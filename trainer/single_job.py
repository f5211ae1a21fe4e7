"""The command that trains one job: needs neither Ray nor a store.

`headcount train` reads the job from YAML. With PyTorch and NumPy alone it comes as JSON:

    python -m headcount.trainer JOB.json
"""

import argparse
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from headcount.trainer.config import SECTIONS
from headcount.trainer.errors import UserError, nearest
from headcount.trainer.execution import Execution
from headcount.trainer.starting import INIT_FROM, started_from
from headcount.trainer.terminal import run_job

Fields = dict[str, object]
Read = Callable[[Path], tuple[Fields, int]]
"""A job's fields by their dotted names, and its seed, of a file."""


def read_json(file: Path) -> tuple[Fields, int]:
    """Of `{"job": {"model": {…}, "train": {…}}, "seed": 0}`, sections nested or dotted.

    Raises `UserError` naming the file.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"{file}: not JSON: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("job"), dict):
        raise UserError(f'{file}: expected {{"job": {{…}}, "seed": 0}}')
    for key in content.keys() - {"job", "seed"}:
        raise UserError(f"{file}: {key}: unknown field; {nearest(key, ('job', 'seed'))}")
    seed = content.get("seed", 0)
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise UserError(f"{file}: seed: got {seed!r}; expected a whole number, 0 or more")
    fields: Fields = {}
    for key, value in content["job"].items():
        nested = isinstance(value, dict) and key in SECTIONS
        fields.update({f"{key}.{name}": v for name, v in value.items()} if nested else {key: value})
    return fields, seed


def main(
    arguments: Sequence[str], read: Read = read_json, program: str = "python -m headcount.trainer"
) -> int:
    """Train the job that the arguments name; returns the exit code. Raises `UserError`."""
    parser = argparse.ArgumentParser(program, description="Train one job; Ctrl-C writes a checkpoint.")
    parser.add_argument("job", type=Path, metavar="JOB", help="The file: job, with its fields, and seed.")
    parser.add_argument("--folder", type=Path, help="Its files; else beside JOB, under its name.")
    parser.add_argument("--home", type=Path, help="Where data sets lie; else HEADCOUNT_HOME or ~/.headcount.")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--threads", type=int, default=1, help="On the CPU.")
    parser.add_argument(
        "--gpus", type=int, default=1, help="That share each update (with --device cpu: processes)."
    )
    parser.add_argument("--micro-batch", type=int, help="Windows of one pass; else by the job's shape.")
    parser.add_argument(
        "--fast",
        action="store_true",
        help="Kernels that may give other bits each time: see docs/training.md.",
    )
    parser.add_argument(
        "--checkpoint-seconds", type=float, default=300.0, help="Between checkpoints; 0: at every update."
    )
    given = parser.parse_args(arguments)
    for option, number, least in (
        ("--gpus", given.gpus, 1),
        ("--threads", given.threads, 1),
        ("--micro-batch", given.micro_batch, 1),
        ("--checkpoint-seconds", given.checkpoint_seconds, 0),
    ):
        if number is not None and not number >= least:
            raise UserError(f"{option}: got {number}; expected {least} or more")
    fields, seed = read(given.job)
    folder: Path = given.folder or given.job.with_suffix("")
    if folder == given.job:
        raise UserError(f"{given.job} has no suffix to leave out for the folder's name; say --folder")
    fields = _with_weights_of_checkpoint(fields, given.job.parent, folder)
    fields, weights = started_from(fields, given.job.parent)
    execution = Execution(
        device=given.device,
        threads=given.threads,
        gpus=given.gpus,
        micro_batch=given.micro_batch,
        checkpoint_seconds=given.checkpoint_seconds,
        exact=not given.fast,
    )
    home = given.home or Path(os.environ.get("HEADCOUNT_HOME") or "~/.headcount")
    return run_job(fields, seed, folder.absolute(), home.expanduser().absolute(), execution, _say, weights)


def _with_weights_of_checkpoint(fields: Fields, beside: Path, folder: Path) -> Fields:
    """A training checkpoint that `init.from` names gives way to a model's file of its weights in `folder`."""
    source = fields.get(INIT_FROM)
    if not isinstance(source, str) or not source.endswith(".pt"):
        return fields
    from headcount.trainer.job_files.checkpoint_model import model_of_checkpoint

    made = model_of_checkpoint(beside / Path(source).expanduser(), folder / "initial")
    return fields | {INIT_FROM: str(made.absolute())}


def _say(line: str) -> None:
    print(line, flush=True)
