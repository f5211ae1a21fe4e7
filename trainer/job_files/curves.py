"""What a job has told so far, kept with its checkpoints, and at its end as files."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headcount.trainer.events import Artifact, Evaluation, Event, Routing
from headcount.trainer.job_files.files import HashedFile, whole_file

CURVE_FILE, ROUTING_FILE = "training_loss.npy", "routing.jsonl"


@dataclass(frozen=True)
class HeadReads:
    """What the heads of each site read at the job's last step, on the first validation window."""

    entropy: list[list[float]]
    """By site and head, nats, mean over tokens."""
    weights: list[list[list[float]]]
    """By site, head and source: mean over tokens."""

    def record(self) -> dict[str, Any]:
        """Four decimals are kept: a job of 25 sites and 16 heads takes 44 KB."""
        weights = [[[round(w, 4) for w in head] for head in site] for site in self.weights]
        entropy = [[round(head, 4) for head in site] for site in self.entropy]
        return {"head_entropy": entropy, "head_weights": weights}


@dataclass
class Curves:
    """The training loss of every update, float32 in nats a token, and what was told at each evaluation."""

    losses: list[float] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    routing: list[Routing] = field(default_factory=list)
    heads: HeadReads | None = None
    """Known at the end alone, and then in its file: no checkpoint holds it."""

    def told(self) -> list[Event]:
        """The evaluations again, each with its routing."""
        by_step = {routing.step: routing for routing in self.routing}
        events: list[Event] = []
        for evaluation in self.evaluations:
            events.append(evaluation)
            if evaluation.step in by_step:
                events.append(by_step[evaluation.step])
        return events

    def state(self) -> dict[str, Any]:
        return {
            "losses": torch.tensor(self.losses, dtype=torch.float32),
            "evaluations": [(e.step, e.loss, list(e.window_losses)) for e in self.evaluations],
            "routing": [(r.step, list(r.entropy), list(r.top_source)) for r in self.routing],
        }

    @classmethod
    def of(cls, state: dict[str, Any]) -> "Curves":
        """The inverse of `state`."""
        return cls(
            state["losses"].tolist(),
            [Evaluation(step, loss, tuple(losses)) for step, loss, losses in state["evaluations"]],
            [Routing(step, tuple(entropy), tuple(top)) for step, entropy, top in state["routing"]],
        )

    def write(self, folder: Path) -> list[Artifact]:
        """`training_loss.npy` and, where the stream routes, `routing.jsonl`; its last line tells `heads`."""
        step = len(self.losses)
        curve = np.array(self.losses, dtype=np.float32)
        written = [Artifact("curve", step, CURVE_FILE, _write(folder / CURVE_FILE, _save(curve)))]
        if self.routing:
            lines: list[dict[str, Any]] = [
                {"step": r.step, "entropy": list(r.entropy), "top_source": list(r.top_source)}
                for r in self.routing
            ]
            if self.heads is not None:
                lines[-1] |= self.heads.record()
            text = "".join(json.dumps(line) + "\n" for line in lines).encode()
            digest = _write(folder / ROUTING_FILE, lambda file: file.write(text))
            written.append(Artifact("routing", step, ROUTING_FILE, digest))
        return written


def _save(array: "np.ndarray[Any, Any]") -> Callable[[HashedFile], object]:
    return lambda file: np.lib.format.write_array(file, array)


def _write(path: Path, fill: Callable[[HashedFile], object]) -> str:
    with whole_file(path) as file:
        fill(file)
    return file.hash.hexdigest()
