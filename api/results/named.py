"""Tables named after the question that they answer, made from the ablation table and its statistics."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headcount.api.results.curves import HEADS, KV_HEADS, grid, head_curve
from headcount.api.results.lookup import QueryError
from headcount.api.results.selection import RATE, RateChoice, rate_choices
from headcount.api.results.significance import ALPHA, paired_statistics
from headcount.api.results.tables import AblationTable, TableRow
from headcount.sweeps.statistics import PairedDelta, holm, paired_delta
from headcount.trainer.errors import nearest

Record = dict[str, Any]

SPLIT_SEEDS = 4
"""Seeds from which on a rate can be chosen on some and reported on others."""


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
    columns: tuple[str, ...]
    rows: tuple[Record, ...]
    """One a cell or setting, by column."""


def named_table(table: AblationTable, name: str) -> NamedTable:
    """The table called `name`. Raises `QueryError` for an unknown name, or an axis that the sweep lacks."""
    if name not in TABLES:
        raise QueryError(f"no table is called {name!r}; {nearest(name, TABLES)}")
    question, build = TABLES[name]
    empty = NamedTable(
        name, question, table.sweep, table.version, table.estimator, table.test, None, None, (), ()
    )
    built, records = build(table, empty)
    if not records:
        raise QueryError(f"sweep {table.sweep!r} has no row for the table {name!r}")
    columns = tuple(dict.fromkeys(column for record in records for column in record))
    return replace(built, columns=columns, rows=tuple({c: r.get(c) for c in columns} for r in records))


Built = tuple[NamedTable, list[Record]]


def _settings(table: AblationTable, row: TableRow) -> Record:
    return {axis: row.settings.get(axis) for axis in table.axes}


def _loss(row: TableRow) -> Record:
    return {"loss": row.mean, "sd": row.sd, "se": row.se, "n": row.n}


def _delta(delta: PairedDelta | None) -> Record:
    return {
        "delta": delta.mean if delta else None,
        "low": delta.low if delta else None,
        "high": delta.high if delta else None,
        "p": delta.p if delta else None,
        "pairs": delta.n if delta else None,
    }


def _provenance(row: TableRow) -> Record:
    """What every row tells of its cell."""
    return {
        "seeds": row.seeds,
        "seeds_missing": row.seeds_missing,
        "seeds_diverged": row.seeds_diverged,
        "seeds_failed": row.seeds_failed,
        "parameters": row.parameters,
        "flops_per_token": row.flops_per_token,
        "tokens_per_second": row.tokens_per_second,
        "mixed_environments": row.mixed_environments,
        "external": row.external,
        "cell": row.cell,
    }


def _heads(table: AblationTable, answer: NamedTable) -> Built:
    statistics = paired_statistics(table)
    found = {c.cell: c for c in statistics.comparisons}
    standing = {s.cell: s.may_be_best for best in statistics.best for s in best.standings}
    records = []
    for line in head_curve(table, HEADS).lines:
        for row in (p for p in line.points if p):
            comparison = found.get(row.cell)
            records.append(
                _settings(table, row)
                | _loss(row)
                | _delta(row.delta)
                | {
                    "adjusted_p": comparison.adjusted_p if comparison else None,
                    "may_be_best": standing.get(row.cell) if statistics.axis in (None, HEADS) else None,
                    "heads_are_kv_heads": row.settings[HEADS] == row.settings.get(KV_HEADS),
                }
                | _provenance(row)
            )
    family = statistics.family
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
            known = [cell.n for cell in cells if cell]
            records.append(
                panel.settings | {found.row_axis: value} | means | {"fewest_seeds": min(known, default=None)}
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
        | _settings(table, row)
        | _loss(row)
        | _delta(row.delta)
        | {"best": row.cell in best, "at_edge": best[row.cell].at_edge if row.cell in best else None}
        | _provenance(row)
        for row in order
    ]
    return answer, records


def _best_rates(table: AblationTable, answer: NamedTable) -> Built:
    _needs(table, RATE)
    choices = rate_choices(table)
    controls = [choice for choice in choices if choice.is_control]
    alpha = float(table.analysis.get("alpha") or ALPHA)
    records, p_values = [], {}
    for choice in (c for c in choices if not c.is_control):
        row = table.row(choice.cell)
        control = next((c for c in controls if c.settings.items() <= choice.settings.items()), None)
        delta = _between(row, table.row(control.cell)) if control else None
        p_values[str(choice.cell)] = delta.p if delta else None
        records.append(
            choice.settings
            | {"best_rate": choice.rate, "rates": choice.choices, "at_edge": choice.at_edge}
            | _loss(row)
            | {"selection_bias": choice.bias}
            | {
                "control_rate": control.rate if control else None,
                "control_rates": control.choices if control else None,
                "control_at_edge": control.at_edge if control else None,
                "control_loss": table.row(control.cell).mean if control else None,
            }
            | _delta(delta)
            | _split(table, choice, control)
            | _provenance(row)
        )
    family = holm(f"best against best over {RATE} in {table.sweep}", p_values, alpha=alpha)
    for record, member in zip(records, family.members.values(), strict=True):
        record["adjusted_p"] = member.adjusted_p
    return replace(answer, family=f"{family.name}, Holm", size=family.size), records


def _between(treatment: TableRow, control: TableRow) -> PairedDelta:
    return paired_delta(_by_seed(treatment), _by_seed(control))


def _by_seed(row: TableRow) -> dict[int, float]:
    return dict(zip(row.seeds, row.losses, strict=True))


def _split(table: AblationTable, choice: RateChoice, control: RateChoice | None) -> Record:
    """Best against best with both rates chosen on every second seed, and reported on the others: unbiased."""
    nothing = {"split_rate": None, "split_control_rate": None, "split_delta": None}
    nothing |= {"split_low": None, "split_high": None, "split_seeds": None}
    if control is None:
        return nothing
    ours = _rates_of(table.treatments, choice.settings)
    theirs = _rates_of(table.controls, control.settings)
    shared = sorted(set.intersection(*(set(row.seeds) for row in (*ours, *theirs))))
    if len(shared) < SPLIT_SEEDS or any(row.seeds_diverged for row in (*ours, *theirs)):
        return nothing
    choosing, reporting = shared[::2], shared[1::2]

    def chosen(rows: Sequence[TableRow]) -> TableRow:
        return min(rows, key=lambda row: sum(_by_seed(row)[seed] for seed in choosing))

    def reported(row: TableRow) -> Mapping[int, float]:
        return {seed: _by_seed(row)[seed] for seed in reporting}

    treated, paired = chosen(ours), chosen(theirs)
    delta = paired_delta(reported(treated), reported(paired))
    return {
        "split_rate": treated.settings[RATE],
        "split_control_rate": paired.settings[RATE],
        "split_delta": delta.mean,
        "split_low": delta.low,
        "split_high": delta.high,
        "split_seeds": tuple(reporting),
    }


def _rates_of(rows: Sequence[TableRow], settings: Mapping[str, Any]) -> list[TableRow]:
    return [r for r in rows if {a: v for a, v in r.settings.items() if a != RATE} == settings]


def _seeds(table: AblationTable, answer: NamedTable) -> Built:
    seeds = sorted({seed for row in table.rows for seed in row.seeds})
    records = []
    for row in table.treatments:
        losses, delta = _by_seed(row), row.delta
        deltas = dict(zip(delta.seeds, delta.deltas, strict=True)) if delta else {}
        records.append(
            _settings(table, row)
            | {f"loss_{seed}": losses.get(seed) for seed in seeds}
            | {f"delta_{seed}": deltas.get(seed) for seed in seeds}
            | _loss(row)
            | _delta(delta)
            | {
                "delta_sd": delta.sd if delta else None,
                "correlation": delta.correlation if delta else None,
                "smallest_delta": min(deltas.values(), default=None),
                "largest_delta": max(deltas.values(), default=None),
            }
            | _provenance(row)
        )
    return answer, records


def _throughput(table: AblationTable, answer: NamedTable) -> Built:
    records = []
    for row in table.rows:
        control = table.row(row.control) if row.control is not None else None
        speed, base = row.tokens_per_second, control.tokens_per_second if control else None
        records.append(
            {"role": "control" if row.is_control else "treatment"}
            | _settings(table, row)
            | {
                "relative_to_control": speed / base if speed and base else None,
                "peak_memory_bytes": row.peak_memory_bytes,
                "n": row.n,
            }
            | _provenance(row)
        )
    return replace(answer, estimator="mean over jobs of tokens a second, as trained", test="none"), records


def _needs(table: AblationTable, axis: str) -> None:
    if axis not in table.axes:
        raise QueryError(f"sweep {table.sweep!r} does not vary {axis}")


TABLES: dict[str, tuple[str, Callable[[AblationTable, NamedTable], Built]]] = {
    "heads": ("How many routing heads, for how many KV heads?", _heads),
    "grid": ("What is the loss over two axes?", _grid),
    "lr": ("How does the loss depend on the learning rate?", _rates),
    "best_lr": ("Is it better with each side at its own best learning rate?", _best_rates),
    "seeds": ("What did each seed say?", _seeds),
    "throughput": ("What does it cost?", _throughput),
}
"""Name to question and builder."""
