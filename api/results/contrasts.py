"""Treatments set against each other: a stream at several widths; heads aligned to the KV groups or not."""

from typing import Any

from headcount.api.results.adaptive import staged_delta
from headcount.api.results.curves import HEADS, KV_HEADS, groups
from headcount.api.results.families import alpha_of
from headcount.api.results.records import Record, by_seed, difference, loss, provenance, settings
from headcount.api.results.tables import AblationTable, TableRow
from headcount.sweeps.statistics import PairedDelta, holm
from headcount.sweeps.statistics.families import Family

WIDTH = "model.d_model"
RESIDUAL = "model.residual"
SLICED, ALIGNED = "mhar", "mhar_hw"


def width_records(table: AblationTable) -> tuple[list[Record], Family]:
    """Every treatment at every width: its delta there, and how far that differs from the narrowest's.

    The change is of deltas at the same seed, each to the control of its own width.
    """
    records: list[Record] = []
    p_values: dict[str, float | None] = {}
    for _, members in groups(table, table.treatments, [WIDTH]):
        rows = sorted(members, key=lambda row: row.settings[WIDTH])
        for row in rows:
            change = None
            if row is not rows[0]:
                change = _change(row, rows[0], table.first_seeds)
                p_values[str(row.cell)] = change.p if change else None
            records.append(
                settings(table, row)
                | loss(row)
                | difference(row.delta)
                | {f"change_{name}": value for name, value in _estimate(change).items()}
                | {"change_adjusted_p": None}
                | provenance(row)
            )
    named = f"the delta at every width of {table.sweep} against that at the narrowest"
    family = holm(named, p_values, alpha=alpha_of(table))
    for record in records:
        if str(record["cell"]) in family.members:
            record["change_adjusted_p"] = family.members[str(record["cell"])].adjusted_p
    return records, family


def _change(row: TableRow, narrowest: TableRow, first_seeds: int | None) -> PairedDelta | None:
    if row.delta is None or narrowest.delta is None:
        return None
    ours, theirs = row.delta, narrowest.delta
    return staged_delta(
        dict(zip(ours.seeds, ours.deltas, strict=True)),
        dict(zip(theirs.seeds, theirs.deltas, strict=True)),
        first_seeds,
    )


def alignment_records(table: AblationTable) -> tuple[list[Record], Family]:
    """Heads aligned to the KV groups (`mhar_hw`) minus slices of the width (`mhar`), all else equal."""
    sliced = {_others(row): row for row in table.treatments if row.settings.get(RESIDUAL) == SLICED}
    records = []
    p_values: dict[str, float | None] = {}
    for row in table.treatments:
        other = sliced.get(_others(row))
        if row.settings.get(RESIDUAL) != ALIGNED or other is None:
            continue
        unknown = row.seeds_diverged or other.seeds_diverged
        delta = None if unknown else staged_delta(by_seed(row), by_seed(other), table.first_seeds)
        p_values[str(row.cell)] = delta.p if delta else None
        heads = row.settings.get(HEADS)
        records.append(
            {axis: row.settings.get(axis) for axis in table.axes if axis != RESIDUAL}
            | {"heads_are_kv_heads": heads == row.settings.get(KV_HEADS) if heads else None}
            | {"sliced_loss": other.mean, "sliced_sd": other.sd, "sliced_n": other.n}
            | loss(row)
            | difference(delta)
            | {"adjusted_p": None}
            | provenance(row)
            | {"mixed_environments": row.mixed_environments or other.mixed_environments}
            | {"sliced_cell": other.cell}
        )
    family = holm(
        f"{ALIGNED} against {SLICED} at every setting of {table.sweep}", p_values, alpha=alpha_of(table)
    )
    for record in records:
        record["adjusted_p"] = family.members[str(record["cell"])].adjusted_p
    return records, family


def _others(row: TableRow) -> str:
    return repr(sorted((axis, value) for axis, value in row.settings.items() if axis != RESIDUAL))


def _estimate(delta: PairedDelta | None) -> dict[str, Any]:
    return {
        "mean": delta.mean if delta else None,
        "low": delta.low if delta else None,
        "high": delta.high if delta else None,
        "p": delta.p if delta else None,
        "pairs": delta.n if delta else None,
    }
