"""Best against best: each side at its own best learning rate, and what choosing it by its losses is worth."""

from collections.abc import Mapping, Sequence
from typing import Any

from headcount.api.results.adaptive import staged_delta
from headcount.api.results.families import alpha_of
from headcount.api.results.records import Record, by_seed, difference, loss, provenance
from headcount.api.results.selection import RATE, RateChoice, rate_choices
from headcount.api.results.tables import AblationTable, TableRow
from headcount.sweeps.statistics import PairedDelta, holm, paired_delta
from headcount.sweeps.statistics.families import Family

SPLIT_SEEDS = 4
"""Seeds from which on a rate can be chosen on some and reported on others."""


def best_rate_records(table: AblationTable) -> tuple[list[Record], Family]:
    """Every setting at its best rate against its control at the control's own, and their family."""
    choices = rate_choices(table)
    controls = [choice for choice in choices if choice.is_control]
    records, p_values = [], {}
    for choice in (c for c in choices if not c.is_control):
        row = table.row(choice.cell)
        control = next((c for c in controls if c.settings.items() <= choice.settings.items()), None)
        delta = _between(row, table.row(control.cell), table.first_seeds) if control else None
        p_values[str(choice.cell)] = delta.p if delta else None
        records.append(
            choice.settings
            | {"best_rate": choice.rate, "rates": choice.choices, "at_edge": choice.at_edge}
            | loss(row)
            | {"selection_bias": choice.bias}
            | {
                "control_rate": control.rate if control else None,
                "control_rates": control.choices if control else None,
                "control_at_edge": control.at_edge if control else None,
                "equal_grids": choice.compared == control.compared if control else None,
                "control_loss": table.row(control.cell).mean if control else None,
            }
            | difference(delta)
            | _split(table, choice, control)
            | provenance(row)
        )
    family = holm(f"best against best over {RATE} in {table.sweep}", p_values, alpha=alpha_of(table))
    for record, member in zip(records, family.members.values(), strict=True):
        record["adjusted_p"] = member.adjusted_p
    return records, family


def _between(treatment: TableRow, control: TableRow, first_seeds: int | None) -> PairedDelta:
    return staged_delta(by_seed(treatment), by_seed(control), first_seeds)


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
        return min(rows, key=lambda row: sum(by_seed(row)[seed] for seed in choosing))

    def reported(row: TableRow) -> Mapping[int, float]:
        return {seed: by_seed(row)[seed] for seed in reporting}

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
