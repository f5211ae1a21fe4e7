"""A sweep that adds to itself and starts from a trained model: what it adds starts there too."""

from typing import Any

import pytest
from plans import make_plan
from search_study import Study
from sqlalchemy import select

from headcount.orchestrator.search.growing import spec_of
from headcount.orchestrator.store import Store, leftovers, submit
from headcount.orchestrator.store.growth import growth_of
from headcount.orchestrator.store.models import Job
from headcount.sweeps.file.spec import SpecError, SweepSpec, parse_spec
from headcount.sweeps.planning.initial import with_initial
from headcount.sweeps.planning.plan import plan
from headcount.trainer.config import fields_of
from headcount.trainer.data import Manifest

SWEEP = """
name: tiny
job:
  init: {from: base}
  model: {residual: delta}
  data: {context: 128}
  train: {steps: 40, eval_every: 5, batch_tokens: 1024}
axes:
  model.routing_heads: [1, 2, 4]
seeds: [0, 1]
"""

GROWING = {
    "search": SWEEP.replace("seeds:", "  train.peak_lr: {low: 1e-4, high: 1e-2, log: true}\nseeds:")
    + "search: {method: random, trials: 4, parallel: 2}\n",
    "refine": SWEEP.replace("seeds:", "  train.peak_lr: [1e-3, 2e-3, 4e-3]\nseeds:")
    + "refine: train.peak_lr\n",
    "seeds": SWEEP.replace("seeds: [0, 1]", "seeds: {start: 2, max: 4, half_width: 0.001}"),
}

MANIFEST = Manifest("ab" * 32, "words", 256, 100_000, 5_000, 3, 105_000)

BASE = {n: v for n, v in fields_of(make_plan().jobs[0].config).items() if n.startswith("model.")}
"""Of the model that `base` is."""


class Started(Study):
    """Submitted with the weights that its file names."""

    weights = "ab" * 32

    def begin(self) -> None:
        spec = self.spec()
        with self.store.write() as session:
            submit(session, plan(spec, lambda data: MANIFEST, growth_of(session, spec)), "tester")

    def spec(self) -> SweepSpec:
        return with_initial(parse_spec(self.text, "tiny.yaml"), self.weights, BASE)


def uneven(config: Any, seed: int) -> float:
    """A seed moves the loss, so that more of them are asked for; the best rate is the highest."""
    rate: float = config["train.peak_lr"]
    return 3 - 10 * rate + (0.1 if config["model.residual"] == "delta" else 0.2) * (seed % 3)


@pytest.mark.parametrize("kind", GROWING)
def test_what_is_added_starts_from_the_same_weights(store: Store, kind: str) -> None:
    study = Started(store, GROWING[kind])
    with store.read() as session:
        before = set(session.scalars(select(Job.id)))
        assert leftovers.initial_weights(session) == {study.weights}  # of a search that has no job yet, too
    study.run(uneven)
    assert study.sweep.growth == "over"
    with store.read() as session:
        configs = session.scalars(select(Job.config)).all()
        added = set(session.scalars(select(Job.id))) - before
    assert added
    assert {config["init.weights"] for config in configs} == {study.weights}
    assert {(config["model.d_model"], config["model.layers"]) for config in configs} == {(64, 2)}
    assert spec_of(study.sweep).initial == study.spec().initial


def test_a_shape_that_weights_fix_is_not_searched_over() -> None:
    text = SWEEP.replace("seeds:", "  model.d_ff: {low: 64, high: 256}\nseeds:")
    spec = parse_spec(text + "search: {method: random, trials: 4}\n", "tiny.yaml")
    with pytest.raises(
        SpecError, match=r"axes.model.d_ff: searched over, where the model that init.from names"
    ):
        with_initial(spec, "ab" * 32, BASE)
