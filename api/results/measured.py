"""Tables that read more of the store than losses: errors, how routing mixes, what probes find, scores."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import fsum, sqrt
from typing import Any

from sqlalchemy.orm import Session

from headcount.api.results.errors import error_records
from headcount.api.results.families import alpha_of
from headcount.api.results.instruments import (
    DOWNSTREAM,
    PROBE,
    STDERR,
    BySeed,
    Figures,
    awaited_cells,
    figures,
)
from headcount.api.results.job_tails import JobTail, job_tails
from headcount.api.results.lookup import QueryError
from headcount.api.results.named import NamedTable
from headcount.api.results.records import Record, difference, provenance, settings
from headcount.api.results.routing import Routing, routing_of_cells
from headcount.api.results.tables import AblationTable, TableRow, ablation_table
from headcount.orchestrator.store.asking_ahead import asked_ahead
from headcount.sweeps.statistics import MeanEstimate, holm, mean_estimate
from headcount.sweeps.statistics.student import mean_and_sd


def measured_table(session: Session, sweep: str, name: str, table: AblationTable | None = None) -> NamedTable:
    """The table `name` of `MEASURED`; `table` is the sweep's, where it was read already.

    Raises `NotFoundError`, and `QueryError` where nothing was measured.
    """
    _, read, _ = MEASURED[name]
    if table is not None:
        return _built(name, table, read(session, sweep))
    with asked_ahead(session, lambda other: read(other, sweep)) as told:
        table = ablation_table(session, sweep)
        return _built(name, table, told())


def _built(name: str, table: AblationTable, told: Any) -> NamedTable:
    question, _, build = MEASURED[name]
    answer = NamedTable(name, question, table.sweep, table.version, "", "none", None, None, None, (), ())
    built, records = build(table, told, answer)
    if not records:
        raise QueryError(f"no job of sweep {table.sweep!r} has a measurement for the table {name!r}")
    return replace(built, columns=tuple(records[0]), rows=tuple(records))


Built = tuple[NamedTable, list[Record]]


def _routing(table: AblationTable, found: Mapping[int, Routing], answer: NamedTable) -> Built:
    """A row a cell that routes."""
    records = []
    for row in table.rows:
        if told := found.get(row.cell):
            records.append(
                settings(table, row)
                | _spread("entropy", told.entropy.values())
                | {"site_entropies": told.entropies, "site_top_sources": told.top_sources}
                | {"n": len(told.entropy), "routed_seeds": tuple(told.entropy)}
                | {"note": _note(row, _not_finite("figure of some site", told.lost))}
                | provenance(row)
            )
    estimator = "entropy of the weights over sources at the last step, nats, mean over sites and seeds"
    return replace(answer, estimator=estimator), records


def _probe(table: AblationTable, found: Figures, answer: NamedTable) -> Built:
    """A row a cell that was probed: each figure's mean over seeds, with its spread."""
    names = sorted({*found.told, *found.lost})
    records = []
    for row in table.rows:
        told = {name: found.told.get(name, {}).get(row.cell, {}) for name in names}
        lost = {name: found.lost.get(name, {}).get(row.cell, ()) for name in names}
        seeds = {seed for values in told.values() for seed in values}
        if not seeds and not any(lost.values()):
            continue
        record = settings(table, row)
        for name in sorted(found.told):
            record |= _spread(name.removeprefix(PROBE), told[name].values())
        notes = [_not_finite(name.removeprefix(PROBE), lost[name]) for name in names]
        for name in names:
            if told[name] and seeds - told[name].keys() - {*lost[name]}:
                notes.append(f"{name.removeprefix(PROBE)} at {_seeds(told[name])} alone")
        notes.append(_apart(found, row.cell, names))
        record |= {"n": len(seeds), "probed_seeds": tuple(sorted(seeds)), "note": _note(row, *notes)}
        records.append(record | provenance(row))
    return replace(answer, estimator="the probe of each job, its newest, mean over seeds"), records


def _scores(session: Session, sweep: str) -> tuple[Figures, set[int]]:
    """And the cells of which some are to come."""
    return figures(session, sweep, DOWNSTREAM), awaited_cells(session, sweep, "evaluate")


def _downstream(table: AblationTable, scores: tuple[Figures, set[int]], answer: NamedTable) -> Built:
    """A row a cell and score, with its difference to the control's at the same seed.

    As for a loss, there is no mean where a seed of the cell diverged, and no difference where one of its
    control's did. Scores to come are of the family already.
    """
    found, awaited = scores
    names = sorted(name for name in {*found.told, *found.lost} if not name.endswith(STDERR))
    records: list[Record] = []
    p_values: dict[str, float | None] = {
        f"{row.cell} {name}": None
        for row in table.rows
        if row.control is not None and row.cell in awaited
        for name in names
    }
    for row in table.rows:
        control = table.row(row.control) if row.control is not None else None
        for name in names:
            own, lost = found.told.get(name, {}).get(row.cell, {}), found.lost.get(name, {}).get(row.cell, ())
            if not own and not lost:
                continue
            notes, delta = [_not_finite("score", lost)], None
            if control:
                if control.seeds_diverged:
                    notes.append(f"no delta: the control diverged at {_seeds(control.seeds_diverged)}")
                elif not row.seeds_diverged:
                    delta = _paired(own, found.told.get(name, {}).get(control.cell, {}))
                p_values[f"{row.cell} {name}"] = delta.p if delta else None
            task, _, metric = name.removeprefix(DOWNSTREAM).rpartition(".")
            errors = found.told.get(name + STDERR, {}).get(row.cell, {})
            known = [errors[seed] for seed in own if seed in errors]
            whole = len(known) == len(own) > 0 and not row.seeds_diverged
            records.append(
                {"role": "control" if row.is_control else "treatment"}
                | settings(table, row)
                | {"task": task, "metric": metric}
                | _spread("score", () if row.seeds_diverged else own.values())
                | {"item_se": sqrt(fsum(e * e for e in known) / len(known)) if whole else None}
                | {"n": len(own), "scored_seeds": tuple(sorted(own))}
                | difference(delta)
                | {"adjusted_p": None}
                | {"note": _note(row, *notes, _apart(found, row.cell, [name]))}
                | provenance(row)
            )
    named = f"every score of every cell of {table.sweep} against its control"
    family = holm(named, p_values, alpha=alpha_of(table))
    for record in records:
        member = family.members.get(f"{record['cell']} {DOWNSTREAM}{record['task']}.{record['metric']}")
        record["adjusted_p"] = member.adjusted_p if member else None
    told = replace(
        answer,
        estimator="newest score of each job, mean over seeds; item_se over the items of the task",
        test=table.test,
        family=f"{family.name}, Holm",
        size=family.size,
    )
    return told, records


def _errors(table: AblationTable, tails: Sequence[JobTail], answer: NamedTable) -> Built:
    """A row a cell with a finished job."""
    estimator = (
        "seed_sd: between seeds; step_se: between the steps of one job's tail, autocorrelation paid for; "
        "window_se: over validation windows at the last step; root mean square over jobs"
    )
    return replace(answer, estimator=estimator), error_records(table, tails)


def _note(row: TableRow, *notes: str) -> str:
    """Why the row's means are over fewer seeds than were planned, or are none."""
    diverged = f"diverged at {_seeds(row.seeds_diverged)}" if row.seeds_diverged else ""
    return "; ".join(note for note in (diverged, *notes) if note)


def _not_finite(name: str, seeds: Collection[int]) -> str:
    return f"no finite {name} at {_seeds(seeds)}" if seeds else ""


def _apart(found: Figures, cell: int, names: Sequence[str]) -> str:
    """Which seeds were measured in another way than the others."""
    told: dict[str, set[int]] = {}
    for name in names:
        for seed, how in found.apart.get(name, {}).get(cell, {}).items():
            told.setdefault(how, set()).add(seed)
    return "; ".join(f"measured with {how} at {_seeds(seeds)}" for how, seeds in sorted(told.items()))


def _seeds(seeds: Collection[int]) -> str:
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, sorted(seeds)))}"


def _paired(treatment: BySeed, control: BySeed) -> MeanEstimate:
    """As `paired_delta`, without what these tables do not tell."""
    pairs = [(treatment[seed], control[seed]) for seed in sorted(treatment.keys() & control.keys())]
    largest = max((abs(value) for pair in pairs for value in pair), default=0.0)
    return mean_estimate([t - c for t, c in pairs], magnitude=largest)


def _spread(name: str, told: Iterable[float]) -> Record:
    """The mean, and the sample standard deviation of two values or more."""
    values = list(told)
    mean, sd = mean_and_sd(values) if len(values) > 1 else (values[0] if values else None, None)
    return {name: mean, f"{name}_sd": sd}


_Read = Callable[[Session, str], Any]
"""What a sweep's jobs told, which the builder of the table is given."""

_Build = Callable[[AblationTable, Any, NamedTable], Built]

MEASURED: dict[str, tuple[str, _Read, _Build]] = {
    "errors": ("Which error is how large: between seeds, between steps, over windows?", job_tails, _errors),
    "routing": ("How does depth routing mix its sources?", routing_of_cells, _routing),
    "probe": (
        "Do slices of the width read the depth in their own ways?",
        lambda session, sweep: figures(session, sweep, PROBE),
        _probe,
    ),
    "downstream": ("Is it better at tasks?", _scores, _downstream),
}
"""Name to question, to what is read for it, and to its builder."""
