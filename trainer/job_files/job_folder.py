"""The files of one job: checkpoints while it trains, and at its end the model and its curves.

    checkpoints/step-00000500.pt, .json   the newest two, until the end
    model.safetensors                     the weights that were evaluated last
    training_loss.npy                     of every update
    routing.jsonl                         of every evaluation, where the stream routes

The checkpoint of an ended job holds what was told, not the weights: the files beside it do.
"""

import logging
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from headcount.trainer.config import JobConfig
from headcount.trainer.events import Artifact, Checkpoint, Event, Result
from headcount.trainer.job_files import checkpoint
from headcount.trainer.job_files.curves import CURVE_FILE, ROUTING_FILE, Curves
from headcount.trainer.job_files.files import has_hash, unwritable
from headcount.trainer.job_files.model_file import MODEL_FILE, metadata_of, write_model

State = dict[str, Any]

log = logging.getLogger(__name__)


class JobFolder:
    """All that an attempt reads and writes there. Raises `UserError` where that fails."""

    def __init__(self, folder: Path, config: JobConfig, fingerprint: str) -> None:
        self.path, self._config, self._fingerprint = folder, config, fingerprint
        self._checkpoints = folder / "checkpoints"
        self._owner = checkpoint.identity(config, fingerprint)

    def load(self) -> State | None:
        """The state to go on from, that of an ended job among them; None where there is none.

        Raises `UserError` where the folder is another job's.
        """
        for name in (MODEL_FILE, CURVE_FILE, ROUTING_FILE):
            for beside in self.path.glob(f".{name}.*"):  # of a writer that was killed
                beside.unlink()
        state = checkpoint.load_newest(self._checkpoints, self._owner)
        if state is None or "result" not in state:
            return state
        for artifact in _artifacts(state):
            if not has_hash(self.path / artifact.file, artifact.sha256):
                path = self.path / artifact.file
                log.warning("%s is missing or damaged: the job is trained again", path)
                checkpoint.drop_all(self._checkpoints)
                return None
        return state

    def save(self, step: int, state: State) -> Checkpoint:
        return checkpoint.save(self._checkpoints, step, state, self._owner)

    def finish(self, result: Result, curves: Curves, weights: Mapping[str, Tensor] | None) -> list[Event]:
        """Write what is kept of an ended job, and drop its checkpoints. `weights`: none where it diverged."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            artifacts = curves.write(self.path)
            if weights is not None:
                metadata = metadata_of(self._config, self._fingerprint, result.step)
                digest = write_model(self.path / MODEL_FILE, weights, metadata)
                artifacts.append(Artifact("model", result.step, MODEL_FILE, digest))
        except OSError as error:
            raise unwritable("the result", self.path, error) from error
        state = {
            "step": result.step,
            "result": asdict(result),
            "artifacts": [asdict(artifact) for artifact in artifacts],
            **curves.state(),
        }
        written = checkpoint.save(self._checkpoints, result.step, state, self._owner, kept=1)
        return [*artifacts, written]


def told_again(state: State) -> list[Event]:
    """What an ended job told: its evaluations, its files and its result."""
    return [*Curves.of(state).told(), *_artifacts(state), Result(**state["result"])]


def _artifacts(state: State) -> list[Artifact]:
    return [Artifact(**artifact) for artifact in state["artifacts"]]
