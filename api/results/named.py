"""Tables named after the question that they answer, made from the ablation table and its statistics."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from headcount.api.results.best_rates import best_rate_records
from headcount.api.results.contrasts import RESIDUAL, WIDTH, alignment_records, width_records
from headcount.api.results.curves import HEADS, KV_HEADS, grid, head_curve
from headcount.api.results.families import control_family
from headcount.api.results.lookup import QueryError
from headcount.api.results.records import (
    Record,
    by_seed,
    difference,
    loss,
    provenance,
    settings,
    shared_provenance,
)
from headcount.api.results.scaling import RESAMPLES, scaling_records
from headcount.api.results.selection import RATE, best_sets, rate_choices
from headcount.api.results.tables import AblationTable, TableRow
from headcount.api.results.tested import comparison_records, shape_records
from headcount.sweeps.statistics import compute_gain
from headcount.trainer.errors import nearest


@dataclass(frozen=True)
class ScalingLaw:
    """L = E + (K / compute)^α, assumed to be known: a compute-equivalent gain is only as good as both."""

    exponent: float
    irreducible: float


@dataclass(frozen=True)
class NamedTable:
    """One question's answer. Every row has every column; what is not known is None."""

    name: str
    question: str
    sweep: str
    version: int
    estimator: str
    test: str
    family: str | None
    """Of `adjusted_p`: which comparisons are corrected for each other, and how."""
    size: int | None
    """Comparisons of the family."""
    law: ScalingLaw | None
    """Of the gains in `main`, where one was asked for; their intervals are those of the deltas alone."""
    columns: tuple[str, ...]
    rows: tuple[Record, ...]
    """One a cell or setting, by column."""


def named_table(table: AblationTable, name: str, law: ScalingLaw | None = None) -> NamedTable:
    """The table called `name`. Raises `QueryError` for an unknown name, or an axis that the sweep lacks."""
    if law is not None and not (law.exponent > 0 and 0 <= law.irreducible < float("inf")):
        raise QueryError(f"a scaling law needs an exponent above 0 and a loss E of 0 or more, but got {law}")
    if name not in TABLES:
        raise QueryError(f"no table is called {name!r}; {nearest(name, TABLES)}")
    question, build = TABLES[name]
    empty = NamedTable(
        name, question, table.sweep, table.version, table.estimator, table.test, None, None, law, (), ()
    )
    built, records = build(table, empty)
    if not records:
        raise QueryError(f"sweep {table.sweep!r} has no row for the table {name!r}")
    columns = tuple(records[0])
    if any(tuple(record) != columns for record in records):
        columns = tuple(dict.fromkeys(column for record in records for column in record))
        records = [{c: record.get(c) for c in columns} for record in records]
    return replace(built, columns=columns, rows=tuple(records))


Built = tuple[NamedTable, list[Record]]


def _heads(table: AblationTable, answer: NamedTable) -> Built:
    family, found = control_family(table)
    over_heads = table.analysis.get("axis") in (None, HEADS)
    standing = (
        {s.cell: s.may_be_best for best in best_sets(table) for s in best.standings} if over_heads else {}
    )
    records = []
    for line in head_curve(table, HEADS).lines:
        for row in (p for p in line.points if p):
            comparison = found.get(row.cell)
            records.append(
                settings(table, row)
                | loss(row)
                | difference(row.delta)
                | {
                    "adjusted_p": comparison.adjusted_p if comparison else None,
                    "may_be_best": standing.get(row.cell)
                    if table.analysis.get("axis") in (None, HEADS)
                    else None,
                    "heads_are_kv_heads": row.settings[HEADS] == row.settings.get(KV_HEADS),
                }
                | provenance(row)
            )
    return replace(answer, family=f"{family.name}, Holm", size=family.size), records


def _grid(table: AblationTable, answer: NamedTable) -> Built:
    found = grid(table)
    records = []
    for panel in found.panels:
        for value, cells in zip(found.row_values, panel.cells, strict=True):
            means = {
                f"{found.column_axis}={x}": cell.mean if cell else None
                for x, cell in zip(found.column_values, cells, strict=True)
            }
            known = [cell for cell in cells if cell]
            records.append(
                panel.settings
                | {found.row_axis: value}
                | means
                | {"fewest_seeds": min((cell.n for cell in known), default=None)}
                | shared_provenance(known)
            )
    return answer, records


def _rates(table: AblationTable, answer: NamedTable) -> Built:
    _needs(table, RATE)
    best = {choice.cell: choice for choice in rate_choices(table)}
    order = sorted(
        table.rows,
        key=lambda r: (not r.is_control, str([r.settings.get(a) for a in table.axes if a != RATE])),
    )
    records = [
        {"role": "control" if row.is_control else "treatment"}
        | settings(table, row)
        | loss(row)
        | difference(row.delta)
        | {"best": row.cell in best, "at_edge": best[row.cell].at_edge if row.cell in best else None}
        | provenance(row)
        for row in order
    ]
    return answer, records


def _best_rates(table: AblationTable, answer: NamedTable) -> Built:
    _needs(table, RATE)
    records, family = best_rate_records(table)
    return replace(answer, family=f"{family.name}, Holm", size=family.size), records


def _main(table: AblationTable, answer: NamedTable) -> Built:
    family, found = control_family(table)
    records = []
    for row in table.rows:
        comparison = found.get(row.cell)
        records.append(
            {"role": "control" if row.is_control else "treatment"}
            | settings(table, row)
            | loss(row)
            | difference(row.delta)
            | {"adjusted_p": comparison.adjusted_p if comparison else None}
            | _gain(table, row, answer.law)
            | provenance(row)
        )
    return replace(answer, family=f"{family.name}, Holm", size=family.size), records


def _gain(table: AblationTable, row: TableRow, law: ScalingLaw | None) -> Record:
    """The compute-equivalent gain under the law that was asked for; no columns without one."""
    if law is None:
        return {}
    nothing = {"gain": None, "gain_low": None, "gain_high": None}
    control = table.row(row.control).mean if row.control is not None else None
    delta = row.delta.mean if row.delta else None
    if control is None or delta is None or min(control, control + delta) <= law.irreducible:
        return nothing
    assert row.delta is not None
    found = compute_gain(
        control,
        delta,
        exponent=law.exponent,
        irreducible=law.irreducible,
        low=row.delta.low,
        high=row.delta.high,
    )
    return {"gain": found.gain, "gain_low": found.low, "gain_high": found.high}


def _seeds(table: AblationTable, answer: NamedTable) -> Built:
    seeds = sorted({seed for row in table.rows for seed in row.seeds})
    records = []
    for row in table.treatments:
        losses, delta = by_seed(row), row.delta
        deltas = dict(zip(delta.seeds, delta.deltas, strict=True)) if delta else {}
        records.append(
            settings(table, row)
            | {f"loss_{seed}": losses.get(seed) for seed in seeds}
            | {f"delta_{seed}": deltas.get(seed) for seed in seeds}
            | loss(row)
            | difference(delta)
            | {
                "delta_sd": delta.sd if delta else None,
                "correlation": delta.correlation if delta else None,
                "smallest_delta": min(deltas.values(), default=None),
                "largest_delta": max(deltas.values(), default=None),
            }
            | provenance(row)
        )
    return answer, records


def _throughput(table: AblationTable, answer: NamedTable) -> Built:
    records = []
    for row in table.rows:
        control = table.row(row.control) if row.control is not None else None
        speed, base = row.tokens_per_second, control.tokens_per_second if control else None
        records.append(
            {"role": "control" if row.is_control else "treatment"}
            | settings(table, row)
            | {
                "relative_to_control": speed / base if speed and base else None,
                "peak_memory_bytes": row.peak_memory_bytes,
                "n": row.timed_jobs,
            }
            | provenance(row)
        )
    return replace(answer, estimator="mean over jobs of tokens a second, as trained", test="none"), records


def _scaling(table: AblationTable, answer: NamedTable) -> Built:
    estimator = (
        f"{answer.estimator}; law L = E + A·C^−α by Huber loss on log L over the controls' jobs, gains with "
        f"the middle 95 % of {RESAMPLES} resamples of jobs"
    )
    return replace(answer, estimator=estimator, test="none"), scaling_records(table)


def _widths(table: AblationTable, answer: NamedTable) -> Built:
    _needs(table, WIDTH)
    records, family = width_records(table)
    return replace(answer, family=f"{family.name}, Holm", size=family.size), records


def _alignment(table: AblationTable, answer: NamedTable) -> Built:
    _needs(table, RESIDUAL)
    records, family = alignment_records(table)
    return replace(answer, family=f"{family.name}, Holm", size=family.size), records


def _tests(table: AblationTable, answer: NamedTable) -> Built:
    records, family = comparison_records(table)
    return replace(answer, family=f"{family.name}, Holm", size=family.size), records


def _shape(table: AblationTable, answer: NamedTable) -> Built:
    records, family = shape_records(table)
    test = "paired t of each end over the middle (by seed, one-sided)"
    return replace(answer, test=test, family=f"{family.name}, Holm", size=family.size), records


def _needs(table: AblationTable, axis: str) -> None:
    if axis not in table.axes:
        raise QueryError(f"sweep {table.sweep!r} does not vary {axis}")


TABLES: dict[str, tuple[str, Callable[[AblationTable, NamedTable], Built]]] = {
    "main": ("Is the treatment better, and what is that worth in compute?", _main),
    "heads": ("How many routing heads, for how many KV heads?", _heads),
    "grid": ("What is the loss over two axes?", _grid),
    "lr": ("How does the loss depend on the learning rate?", _rates),
    "best_lr": ("Is it better with each side at its own best learning rate?", _best_rates),
    "seeds": ("What did each seed say?", _seeds),
    "tests": ("Is each delta told from 0, by every test that its data allow?", _tests),
    "shape": ("Is each line a U, is it flat, and where is its minimum?", _shape),
    "width": ("Does the difference hold as the width grows?", _widths),
    "alignment": ("Are heads aligned to the KV groups better than slices of the width?", _alignment),
    "throughput": ("What does it cost?", _throughput),
    "scaling": ("What is it worth in compute, and in time, by a law fitted to the controls?", _scaling),
}
"""Name to question and builder."""
