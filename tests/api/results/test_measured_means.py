"""What the means of `routing`, `probe` and `downstream` rest on: never silently on fewer jobs, or on looks of
two kinds."""

import json
import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from raw_sweep import MOMENT, RawCell, add_job, measure, write_sweep
from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.api.results import measured_table
from headcount.api.results.probed import probed_cells
from headcount.api.results.records import Record
from headcount.orchestrator.store.models import Artifact, Cell, Job, Sweep, SweepInstrument

AXES = {"model.routing_heads": (4,)}
SEEDS = range(3)

Ids = list[dict[int, str]]
"""Of jobs, by cell and seed."""


@pytest.fixture
def jobs(session: Session) -> Ids:
    """A control and a treatment at three seeds."""
    cells = [RawCell({}, dict.fromkeys(SEEDS, 3.5))]
    cells.append(RawCell({"model.routing_heads": 4}, dict.fromkeys(SEEDS, 3.4), 0))
    return write_sweep(session, "measured", AXES, cells)


def look(
    session: Session,
    parent: str,
    kind: str,
    told: Mapping[str, float | None],
    *,
    hour: int = 0,
    settings: Mapping[str, Any] | None = None,
    asked: bool = False,
) -> None:
    """A finished instrument of a job; whether its sweep asks for it."""
    own = f"{kind[0]}{hour}{parent}"[:64]
    seed, ended = session.get_one(Job, parent).seed, MOMENT + timedelta(hours=hour)
    add_job(session, own, seed, None, config=settings or {}, kind=kind, parent=parent, ended=ended)
    measure(session, own, told)
    if asked:
        sweep = session.scalars(select(Sweep.id)).one()
        session.add(SweepInstrument(sweep_id=sweep, job_id=own))
        session.flush()


def diverge(session: Session, job: str) -> None:
    found = session.get_one(Job, job)
    found.state, found.tail_mean, found.diverged_step = "diverged", None, 7
    session.flush()


def rows(session: Session, table: str) -> tuple[Record, ...]:
    return measured_table(session, "measured", table).rows


def test_routing_says_at_which_seeds_a_site_has_no_number_and_leaves_diverged_jobs_out(
    session: Session, jobs: Ids
) -> None:
    for seed, job in jobs[1].items():
        site = None if seed == 1 else 1.0 + seed
        measure(session, job, {"routing_entropy": 1.0, "routing_entropy.0": site, "routing_entropy.1": 2.0})
    (row,) = rows(session, "routing")
    assert (row["site_entropies"], row["n"], row["routed_seeds"]) == ((2.0, 2.0), 3, (0, 1, 2))
    assert row["note"] == "no finite figure of some site at seed 1"
    diverge(session, jobs[1][1])
    (row,) = rows(session, "routing")
    assert (row["n"], row["routed_seeds"], row["note"]) == (2, (0, 2), "diverged at seed 1")


def test_an_older_number_stands_in_for_none_that_is_not_finite(session: Session, jobs: Ids) -> None:
    for seed, job in jobs[1].items():
        look(session, job, "probe", {"probe.excess": 0.9})
        look(session, job, "probe", {"probe.excess": math.nan if seed == 1 else 0.2}, hour=1)
    (row,) = rows(session, "probe")
    assert (row["excess"], row["n"], row["note"]) == (0.2, 2, "no finite excess at seed 1")


def test_a_figure_that_some_looks_lack_says_at_which_seeds_it_is(session: Session, jobs: Ids) -> None:
    for seed, job in jobs[1].items():
        look(session, job, "probe", {"probe.excess": 0.2} | ({"probe.entropy": 1.0} if seed < 2 else {}))
    (row,) = rows(session, "probe")
    assert (row["entropy"], row["probed_seeds"], row["note"]) == (
        1.0,
        (0, 1, 2),
        "entropy at seeds 0, 1 alone",
    )


def test_what_the_sweep_asks_for_counts_before_what_else_was_measured_later(
    session: Session, jobs: Ids
) -> None:
    for job in jobs[1].values():
        asked = {"probe.windows": 64, "probe.slices": 4}
        look(session, job, "probe", {"probe.excess": 0.2}, settings=asked, asked=True)
    look(session, jobs[1][0], "probe", {"probe.excess": 0.9}, hour=1, settings={"probe.windows": 2})
    (row,) = rows(session, "probe")
    assert (row["excess"], row["n"], row["note"]) == (pytest.approx(0.2), 3, "")


@pytest.mark.parametrize("asked", [True, False])
def test_looks_with_other_settings_are_named(session: Session, jobs: Ids, asked: bool) -> None:
    usual = {"evaluate.tasks": ["quiz"], "evaluate.limit": 100, "evaluate.include": "/here"}
    for cell in (0, 1):
        for seed, job in jobs[cell].items():
            if (cell, seed) != (1, 2):
                look(session, job, "evaluate", {"downstream.quiz.acc": 0.5}, settings=usual, asked=asked)
    other = {"evaluate.tasks": ["quiz", "other"], "evaluate.include": "/there"}
    look(session, jobs[1][2], "evaluate", {"downstream.quiz.acc": 0.8}, settings=other)
    control, treatment = rows(session, "downstream")
    assert (control["n"], control["note"]) == (3, "")
    assert treatment["score"] == pytest.approx(0.6)
    assert treatment["note"] == "measured with evaluate.limit at its default at seed 2"


def test_settings_at_their_default_differ_from_none(session: Session, jobs: Ids) -> None:
    for seed, job in jobs[1].items():
        given = {"probe.windows": 64, "probe.seed": 0} if seed else {}
        look(session, job, "probe", {"probe.excess": 0.2}, settings=given)
    (row,) = rows(session, "probe")
    assert row["note"] == ""


def test_no_score_and_no_delta_where_a_seed_diverged(session: Session, jobs: Ids) -> None:
    for cell in (0, 1):
        for seed, job in jobs[cell].items():
            told = {"downstream.quiz.acc": 0.5 + 0.1 * cell + 0.01 * seed * cell}
            look(session, job, "evaluate", told | {"downstream.quiz.acc.stderr": 0.02})
    control, treatment = rows(session, "downstream")
    assert treatment["delta"] == pytest.approx(0.11)
    assert treatment["scored_seeds"] == (0, 1, 2)
    diverge(session, jobs[0][0])
    control, treatment = rows(session, "downstream")
    assert [control[name] for name in ("score", "score_sd", "item_se")] == [None] * 3
    assert (control["n"], control["note"]) == (3, "diverged at seed 0")
    assert treatment["score"] == pytest.approx(0.61)
    assert [treatment[name] for name in ("delta", "low", "high", "p", "pairs")] == [None] * 5
    assert treatment["note"] == "no delta: the control diverged at seed 0"
    assert measured_table(session, "measured", "downstream").size == 1


def test_scores_to_come_are_of_the_family(session: Session) -> None:
    cells = [RawCell({}, dict.fromkeys(SEEDS, 3.5))]
    cells += [RawCell({"model.routing_heads": heads}, dict.fromkeys(SEEDS, 3.4), 0) for heads in (1, 4, 8)]
    jobs = write_sweep(session, "measured", {"model.routing_heads": (1, 4, 8)}, cells)
    for cell, of_cell in enumerate(jobs[:3]):
        for seed, job in of_cell.items():
            score = {"downstream.quiz.acc": 0.5 + 0.1 * cell + 0.01 * seed * cell}
            look(session, job, "evaluate", score, asked=True)
    early = rows(session, "downstream")[1]
    for child in session.scalars(select(Job).where(Job.parent_id.in_(jobs[2].values()))):
        child.state = "queued"
    session.flush()
    table = measured_table(session, "measured", "downstream")
    assert (len(table.rows), table.size) == (2, 2)
    assert table.rows[1]["adjusted_p"] == pytest.approx(2 * table.rows[1]["p"])
    assert early["p"] == table.rows[1]["p"]


def test_the_error_over_items_is_of_every_score_or_of_none(session: Session, jobs: Ids) -> None:
    for seed, job in jobs[0].items():
        errors = {"downstream.quiz.acc.stderr": 0.02} if seed < 2 else {}
        look(session, job, "evaluate", {"downstream.quiz.acc": 0.5} | errors)
    (row,) = rows(session, "downstream")
    assert (row["score"], row["item_se"], row["n"]) == (0.5, None, 3)


def test_probes_of_other_slices_are_no_part_of_a_mean_over_slices(session: Session, jobs: Ids) -> None:
    files = {}
    for seed, parent in jobs[1].items():
        look(session, parent, "probe", {"probe.excess": 0.2})
        probe = session.scalars(select(Job.id).where(Job.parent_id == parent)).one()
        slices = 4 if seed == 1 else 2
        site = {"site": 1, "disagreement": 0.1 * (1 + seed), "null": 0.05, "oldest_weight": 0.5}
        files[f"jobs/{probe}"] = json.dumps({"sites": [site | {"weights": [[0.5] * slices] * 2}]}).encode()
        artifact = {"kind": "probe", "sha256": "0" * 64, "created": MOMENT}
        session.add(Artifact(key=f"jobs/{probe}", job_id=probe, **artifact))
    session.flush()
    [cell] = session.scalars(select(Cell.id).where(Cell.is_control.is_(False)))
    [found] = probed_cells(session, "measured", [cell], files.get).values()
    assert found.seeds == (0, 2)
    assert found.sites[0].disagreement == pytest.approx(0.2)
