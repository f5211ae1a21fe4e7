"""Are the numbers of the whole pipeline right on average? Losses are drawn into a store, and its table read.

Nominal 95 % intervals must cover 93 to 97 %, and a family at 5 % must err in at most 6 % of the sweeps.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from builders import CONTROL, JobKey, build_sweep
from sqlalchemy import bindparam, select, update
from sqlalchemy.orm import Session

from headcount.api.results import AblationTable, ablation_table, paired_statistics
from headcount.orchestrator.store import Store, open_store
from headcount.orchestrator.store.models import Job, SweepJob

HEADS = (1, 2, 4)
SPREADS = {1: 0.015, 2: 0.049, 4: 0.002, CONTROL: 0.01}
"""As published for three methods at one scale."""


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    opened = open_store("sqlite://")
    yield opened
    opened.close()


class Simulation:
    """One sweep whose losses are drawn again and again."""

    def __init__(self, session: Session, name: str, kv_heads: tuple[int, ...], seeds: int = 5) -> None:
        self.session, self.name, self.seeds = session, name, seeds
        build_sweep(session, name, heads=HEADS, kv_heads=kv_heads, seeds=range(seeds), curves=False)
        found = session.execute(
            select(Job.id, Job.config, Job.seed)
            .join(SweepJob, SweepJob.job_id == Job.id)
            .order_by(SweepJob.position)
        ).all()
        self.keys: list[JobKey] = [
            (
                c["model.routing_heads"] if c["model.residual"] == "mhar" else CONTROL,
                c["model.kv_heads"],
                c["train.peak_lr"],
                seed,
            )
            for _, c, seed in found
        ]
        self.ids = [job_id for job_id, _, _ in found]
        self.rng = np.random.default_rng(2026)

    def draw(
        self, spreads: Mapping[int | None, float], truth: Mapping[int | None, float], present: set[int]
    ) -> AblationTable:
        """The table of new losses; the jobs of `present` are finished, the others queued."""
        seed_effect = self.rng.normal(0, 0.02, self.seeds)
        rows = [
            {
                "job": job_id,
                "loss": 3 + truth[h] + seed_effect[seed] + self.rng.normal(0, spreads[h])
                if i in present
                else None,
                "now": "finished" if i in present else "queued",
            }
            for i, (job_id, (h, _, _, seed)) in enumerate(zip(self.ids, self.keys, strict=True))
        ]
        self.session.connection().execute(
            update(Job.__table__)  # type: ignore[arg-type]
            .where(Job.__table__.c.id == bindparam("job"))
            .values(tail_mean=bindparam("loss"), state=bindparam("now")),
            rows,
        )
        return ablation_table(self.session, self.name)


SCENARIOS = {
    "one variance": dict.fromkeys(SPREADS, 0.01),
    "unequal variances": SPREADS,
    "missing seeds": SPREADS,
    "added seeds": SPREADS,
}


def _present(scenario: str, keys: list[JobKey], rng: np.random.Generator) -> set[int]:
    first = {i for i, key in enumerate(keys) if key[3] < 3}
    if scenario == "missing seeds":
        return {i for i in range(len(keys)) if rng.random() > 0.25}
    if scenario == "added seeds":  # for every other number of KV heads, and the controls
        return first | {i for i, key in enumerate(keys) if key[1] % 2}
    return first


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_intervals_of_the_table_cover(store: Store, scenario: str) -> None:
    truth = {CONTROL: 0.0, 1: 0.0, 2: -0.01, 4: 0.02}
    covered: dict[int, list[bool]] = {h: [] for h in HEADS}
    with Session(store.engine) as session:
        simulation = Simulation(session, "many", kv_heads=(1, 2, 4, 8, 16))
        for _ in range(120):
            present = _present(scenario, simulation.keys, simulation.rng)
            table = simulation.draw(SCENARIOS[scenario], truth, present)
            for row in table.treatments:
                if row.delta and row.delta.low is not None and row.delta.high is not None:
                    heads = row.settings["model.routing_heads"]
                    covered[heads].append(row.delta.low <= truth[heads] <= row.delta.high)
    assert min(map(len, covered.values())) > 500
    assert 0.93 <= np.mean([c for of in covered.values() for c in of]) <= 0.97
    for of in covered.values():
        assert np.mean(of) == pytest.approx(0.95, abs=3 * (0.95 * 0.05 / len(of)) ** 0.5)


def test_many_noisy_cells_err_in_few_sweeps_at_three_seeds(store: Store) -> None:
    """Nine cells, enough for moderated errors, which alone would fail in 11 % of these sweeps."""
    wrong = claims = 0
    with Session(store.engine) as session:
        simulation = Simulation(session, "noisy", kv_heads=(1, 2, 4), seeds=3)
        none, everything = dict.fromkeys(SPREADS, 0.0), set(range(len(simulation.keys)))
        for _ in range(150):
            found = paired_statistics(simulation.draw(SPREADS, none, everything))
            told = [c.simultaneous for c in found.comparisons if c.simultaneous]
            claims += len(told)
            wrong += any(e.p is not None and e.p <= 0.05 for e in told)
    assert claims == 150 * 9
    assert wrong / 150 <= 0.06


@pytest.mark.parametrize("scenario", ["one variance", "unequal variances"])
def test_the_family_errs_in_few_sweeps_without_an_effect(store: Store, scenario: str) -> None:
    sweeps = 250 if scenario == "one variance" else 150
    families = wrong_sweeps = wrong_families = wrong_at_once = 0
    with Session(store.engine) as session:
        simulation = Simulation(session, "null", kv_heads=(1, 2), seeds=8)  # enough to check for one variance
        none = dict.fromkeys(SPREADS, 0.0)
        everything = set(range(len(simulation.keys)))
        for _ in range(sweeps):
            found = paired_statistics(simulation.draw(SCENARIOS[scenario], none, everything))
            wrong_sweeps += any(c.rejected for c in found.comparisons)
            told = [c.simultaneous for c in found.comparisons if c.simultaneous]
            assert len(told) == found.family.size
            wrong_at_once += any(
                not e.low <= 0 <= e.high for e in told if e.low is not None and e.high is not None
            )
            for family in (f for f in found.dunnett if f.reason is None):
                members = [c.dunnett_p for c in found.comparisons if c.control == family.control]
                families += 1
                wrong_families += any(p is not None and p <= family.alpha for p in members)
    assert wrong_sweeps / sweeps <= 0.06
    assert wrong_at_once / sweeps <= 0.06
    if scenario == "one variance":
        assert wrong_sweeps / sweeps >= 0.01
        assert families > sweeps
        assert 0.01 <= wrong_families / families <= 0.06
    else:
        assert families < sweeps / 10  # pooling is refused where the variances differ


def test_a_sweep_against_itself_has_deltas_of_exactly_0(store: Store) -> None:
    with Session(store.engine) as session:
        simulation = Simulation(session, "same", kv_heads=(1, 2))
        everything = set(range(len(simulation.keys)))
        table = simulation.draw(dict.fromkeys(SPREADS, 0.0), dict.fromkeys(SPREADS, 0.0), everything)
        found = paired_statistics(table)
    assert len({tuple(row.losses) for row in table.rows}) == 1  # seeds differ, cells do not
    for comparison in found.comparisons:
        delta = comparison.delta
        assert delta is not None
        assert set(delta.deltas) == {0.0}
        assert (delta.mean, delta.low, delta.high, delta.p) == (0.0, 0.0, 0.0, None)
        assert (comparison.adjusted_p, comparison.rejected, comparison.sign_flip_p) == (None, False, 1.0)
    assert not any(shape.rejected for shape in found.shapes)
    assert all(s.may_be_best for best in found.best for s in best.standings)
