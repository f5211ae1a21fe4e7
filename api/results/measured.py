"""Tables that read more of the store than losses: errors, how routing mixes, what probes find, scores."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import fsum, sqrt

from sqlalchemy.orm import Session

from headcount.api.results.errors import error_records
from headcount.api.results.families import alpha_of
from headcount.api.results.instruments import (
    DOWNSTREAM,
    PROBE,
    STDERR,
    BySeed,
    figures,
)
from headcount.api.results.lookup import QueryError
from headcount.api.results.named import NamedTable
from headcount.api.results.records import Record, difference, provenance, settings
from headcount.api.results.routing import routing_of_cells
from headcount.api.results.tables import AblationTable, ablation_table
from headcount.sweeps.statistics import MeanEstimate, holm, mean_estimate
from headcount.sweeps.statistics.student import mean_and_sd


def measured_table(session: Session, sweep: str, name: str) -> NamedTable:
    """The table `name` of `MEASURED`. Raises `NotFoundError`, and `QueryError` where nothing was measured."""
    question, build = MEASURED[name]
    table = ablation_table(session, sweep)
    answer = NamedTable(name, question, table.sweep, table.version, "", "none", None, None, None, (), ())
    built, records = build(session, table, answer)
    if not records:
        raise QueryError(f"no job of sweep {sweep!r} has a measurement for the table {name!r}")
    return replace(built, columns=tuple(records[0]), rows=tuple(records))


Built = tuple[NamedTable, list[Record]]


def _routing(session: Session, table: AblationTable, answer: NamedTable) -> Built:
    """A row a cell that routes."""
    found = routing_of_cells(session, table.sweep)
    records = []
    for row in table.rows:
        if told := found.get(row.cell):
            records.append(
                settings(table, row)
                | _spread("entropy", told.entropy.values())
                | {"site_entropies": told.entropies, "site_top_sources": told.top_sources}
                | {"n": len(told.entropy)}
                | provenance(row)
            )
    estimator = "entropy of the weights over sources at the last step, nats, mean over sites and seeds"
    return replace(answer, estimator=estimator), records


def _probe(session: Session, table: AblationTable, answer: NamedTable) -> Built:
    """A row a cell that was probed: each figure's mean over seeds, with its spread."""
    found, lost = figures(session, table.sweep, PROBE)
    records = []
    for row in table.rows:
        seeds = {seed for cells in found.values() for seed in cells.get(row.cell, ())}
        notes = [
            _not_finite(name.removeprefix(PROBE), cells[row.cell])
            for name, cells in sorted(lost.items())
            if row.cell in cells
        ]
        if seeds or notes:
            record = settings(table, row)
            for name in sorted(found):
                record |= _spread(name.removeprefix(PROBE), found[name].get(row.cell, {}).values())
            told = {"n": len(seeds), "probed_seeds": tuple(sorted(seeds)), "note": "; ".join(notes)}
            records.append(record | told | provenance(row))
    return replace(answer, estimator="newest finished probe of each job, mean over seeds"), records


def _downstream(session: Session, table: AblationTable, answer: NamedTable) -> Built:
    """A row a cell and score, with its difference to the control's at the same seed."""
    found, lost = figures(session, table.sweep, DOWNSTREAM)
    scores: dict[str, dict[int, dict[int, float]]] = {
        name: {cell: {} for cell in lost.get(name, {})} | found.get(name, {})
        for name in {*found, *lost}
        if not name.endswith(STDERR)
    }
    records: list[Record] = []
    p_values: dict[str, float | None] = {}
    for row in table.rows:
        for name in sorted(name for name, cells in scores.items() if row.cell in cells):
            own, missing = scores[name][row.cell], row.cell in lost.get(name, {})
            delta = None
            if row.control is not None:
                delta = _paired(own, scores[name].get(row.control, {}))
                p_values[f"{row.cell} {name}"] = delta.p
            task, _, metric = name.removeprefix(DOWNSTREAM).rpartition(".")
            errors = found.get(name + STDERR, {}).get(row.cell, {}).values()
            records.append(
                {"role": "control" if row.is_control else "treatment"}
                | settings(table, row)
                | {"task": task, "metric": metric}
                | _spread("score", own.values())
                | {"item_se": sqrt(fsum(e * e for e in errors) / len(errors)) if errors else None}
                | {"n": len(own)}
                | difference(delta)
                | {"adjusted_p": None}
                | {"note": _not_finite("score", lost[name][row.cell]) if missing else ""}
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


def _errors(session: Session, table: AblationTable, answer: NamedTable) -> Built:
    """A row a cell with a finished job."""
    estimator = (
        "seed_sd: between seeds; step_se: between the steps of one job's tail, autocorrelation paid for; "
        "window_se: over validation windows at the last step; root mean square over jobs"
    )
    return replace(answer, estimator=estimator), error_records(session, table)


def _not_finite(name: str, seeds: Sequence[int]) -> str:
    """Why a mean is over fewer seeds than were measured, or is not known."""
    return f"no finite {name} at seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


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


MEASURED: dict[str, tuple[str, Callable[[Session, AblationTable, NamedTable], Built]]] = {
    "errors": ("Which error is how large: between seeds, between steps, over windows?", _errors),
    "routing": ("How does depth routing mix its sources?", _routing),
    "probe": ("Do slices of the width read the depth in their own ways?", _probe),
    "downstream": ("Is it better at tasks?", _downstream),
}
"""Name to question and builder."""
