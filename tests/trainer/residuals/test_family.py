"""The ready-made study of all streams: it names them all, and all of them learn."""

from dataclasses import replace
from pathlib import Path

import pytest

import headcount.sweeps
from headcount.sweeps.file.spec import load_spec
from headcount.sweeps.planning.plan import plan
from headcount.sweeps.planning.planned import PlannedJob
from headcount.trainer.data import Dataset
from headcount.trainer.events import Evaluation, Result
from headcount.trainer.execution import Execution
from headcount.trainer.loop import train
from headcount.trainer.residuals.registry import stream_label, stream_names

STUDY = Path(headcount.sweeps.__path__[0]) / "residual_family.yaml"


@pytest.fixture(scope="module")
def jobs(small_data: Dataset) -> list[PlannedJob]:
    """At the first seed."""
    planned = plan(load_spec(STUDY), lambda config: small_data.manifest)
    return [job for job in planned.jobs if job.config.seed == 0]


def test_the_study_has_every_stream_under_a_label_of_its_own(jobs: list[PlannedJob]) -> None:
    assert {job.config.model.residual for job in jobs} == set(stream_names())
    assert len({stream_label(job.config.model) for job in jobs}) == len(jobs) == 26
    controls = [job for job in jobs if job.control_id is None]
    assert [job.config.model.residual for job in controls] == ["additive"]


def test_all_of_them_train_and_their_losses_fall(jobs: list[PlannedJob], small_data: Dataset) -> None:
    falls = {}
    for planned in jobs:
        config = planned.config
        few = replace(config.train, steps=10, warmup_steps=1, batch_tokens=256, eval_every=5, eval_windows=2)
        events = list(train(replace(config, train=few), small_data, execution=Execution(device="cpu")))
        losses = [event.loss for event in events if isinstance(event, Evaluation)]
        assert isinstance(events[-1], Result)
        assert events[-1].outcome == "finished", config.model
        falls[stream_label(config.model)] = losses[0] - losses[-1]
    assert all(1.5 < fall < 6 for fall in falls.values()), falls
