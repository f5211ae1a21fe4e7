"""What a slot does for an instrument: look at the parent's model, and tell what it found."""

import json
import shutil
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

from headcount.orchestrator.artifacts.address import Artifacts
from headcount.orchestrator.store.recording import Record
from headcount.orchestrator.store.transitions import Work, attempt_folder
from headcount.sweeps.planning.instruments import FILES
from headcount.trainer.config import FIELDS, JobConfig, job_from_fields
from headcount.trainer.data import Dataset
from headcount.trainer.device import choose_device, describe
from headcount.trainer.downstream.task_files import task_data_digest, tasks_digest
from headcount.trainer.errors import UserError
from headcount.trainer.execution import Execution
from headcount.trainer.job_files.files import has_hash, whole_file

LONGEST_NAME = 100
"""Of a measurement."""


def measure(
    work: Work,
    dataset: Dataset,
    home: Path,
    artifacts: Path,
    remote: Artifacts | None,
    stop: Callable[[], bool],
) -> Iterator[Record]:
    """The records of an instrument's attempt up to its result.

    Raises `UserError` for what cannot be measured, `ArtifactsUnavailable` where the parent's model does not
    come, or the file of figures does not go, and `Stopped` where `stop()` is true between two passes.

    `artifacts` is the folder that all nodes share, or this node's own where `remote` is the address.
    """
    folder = artifacts / attempt_folder(work.job_id, work.number)
    folder.mkdir(parents=True, exist_ok=True)
    steps = work.config["train.steps"]
    file = _model_file(work, folder, artifacts, remote)
    execution = Execution()
    device = choose_device(_of_parent(work), execution)
    yield {"kind": "started", "step": 0, "environment": describe(device, execution, 1, None)}
    if work.kind == "probe":
        measurements, content = _probed(work, file, dataset, str(device), stop)
    else:
        measurements, content = yield from _evaluated(work, file, home, str(device), stop)
    for name in measurements:
        if len(name) > LONGEST_NAME:
            raise UserError(f"the figure {name} has a name of over {LONGEST_NAME} characters")
    name = FILES[work.kind]
    with whole_file(folder / name) as written:
        written.write(json.dumps(content).encode())
    if remote is not None:
        remote.upload(folder / name, f"{attempt_folder(work.job_id, work.number)}/{name}")
        shutil.rmtree(folder, ignore_errors=True)
    yield {
        "kind": "artifact",
        "purpose": work.kind,
        "step": steps,
        "file": name,
        "sha256": written.hash.hexdigest(),
    }
    yield {
        "kind": "result",
        "outcome": "finished",
        "step": steps,
        "tail_mean": None,
        "measurements": measurements,
    }


def _of_parent(work: Work) -> JobConfig:
    """An instrument's fields are its parent's, and its own."""
    own = {name: value for name, value in work.config.items() if name in FIELDS}
    return job_from_fields(own, work.seed)


def _model_file(work: Work, folder: Path, artifacts: Path, remote: Artifacts | None) -> Path:
    if work.model is None:
        raise UserError("the job that it looks at has no model any more; train that anew")
    key, sha256 = work.model
    file = artifacts / key
    if remote is not None:
        file = folder / "model.safetensors"
        remote.download(key, file)
    if not has_hash(file, sha256):
        raise UserError(f"the model that it looks at, {artifacts / key}, is missing or damaged")
    return file


def _probed(
    work: Work, file: Path, dataset: Dataset, device: str, stop: Callable[[], bool]
) -> tuple[dict[str, float], Any]:
    from headcount.trainer.probe.figures import Settings
    from headcount.trainer.probe.running import probe_file

    names = ("windows", "slices", "draws", "seed")
    settings = Settings(**{name: work.config[f"probe.{name}"] for name in names})
    figures = probe_file(file, dataset, settings, device, stop)
    known = {name: value for name, value in figures.measurements().items() if value is not None}
    return known, figures.to_record()


def _evaluated(
    work: Work, file: Path, home: Path, device: str, stop: Callable[[], bool]
) -> Generator[Record, None, tuple[dict[str, float], Any]]:
    """Tells each task before it begins, so that the slot is not thought to hang."""
    config = work.config
    include = _as_submitted(config, "include", tasks_digest)
    data = _as_submitted(config, "task_data", task_data_digest)
    from headcount.orchestrator.instruments.downstream import open_model
    from headcount.trainer.downstream.running import joined, run_tasks

    model = open_model(file, home, config.get("evaluate.tokenizer"), device, stop)
    outcomes = []
    for task in config["evaluate.tasks"]:
        yield {"kind": "evaluating", "task": task}
        limit = config.get("evaluate.limit")
        outcomes.append(run_tasks(model, [task], include=include, data=data, limit=limit))
    found = joined(outcomes)
    return found.measurements(), found.to_record()


def _as_submitted(config: dict[str, Any], name: str, digest: Callable[[Path], str]) -> Path | None:
    """A folder that tasks are read from, which must hold what it held when the sweep was submitted."""
    if not (given := config.get(f"evaluate.{name}")):
        return None
    if digest(Path(given)) != config[f"evaluate.{name}_sha256"]:
        raise UserError(f"{given} holds other files than when it was submitted; submit again")
    return Path(given)
