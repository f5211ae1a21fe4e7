"""The columns that named tables share, as parts of a row."""

from collections.abc import Sequence
from math import fsum
from typing import Any

from headcount.api.results.tables import AblationTable, TableRow
from headcount.sweeps.statistics import MeanEstimate

Record = dict[str, Any]


def settings(table: AblationTable, row: TableRow) -> Record:
    """Every axis, None where the cell's stream does not read it."""
    return {axis: row.settings.get(axis) for axis in table.axes}


def loss(row: TableRow) -> Record:
    """The mean over seeds and its spread."""
    return {"loss": row.mean, "sd": row.sd, "se": row.se, "n": row.n}


def difference(delta: MeanEstimate | None) -> Record:
    """A paired delta with its interval."""
    return {
        "delta": delta.mean if delta else None,
        "low": delta.low if delta else None,
        "high": delta.high if delta else None,
        "p": delta.p if delta else None,
        "pairs": delta.n if delta else None,
    }


def provenance(row: TableRow) -> Record:
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


def by_seed(row: TableRow) -> dict[int, float]:
    """Seed to loss."""
    return dict(zip(row.seeds, row.losses, strict=True))


def shared_provenance(rows: Sequence[TableRow]) -> Record:
    """What a row tells of several cells: seeds that any of them has or lacks, and what all have in common."""

    def seeds(name: str) -> tuple[int, ...]:
        return tuple(sorted({seed for row in rows for seed in getattr(row, name)}))

    def common(name: str) -> Any:
        values = {getattr(row, name) for row in rows}
        return values.pop() if len(values) == 1 else None

    speeds = [row.tokens_per_second for row in rows if row.tokens_per_second is not None]
    return {
        **{name: seeds(name) for name in ("seeds", "seeds_missing", "seeds_diverged", "seeds_failed")},
        "parameters": common("parameters"),
        "flops_per_token": common("flops_per_token"),
        "tokens_per_second": fsum(speeds) / len(speeds) if speeds else None,
        "mixed_environments": any(row.mixed_environments for row in rows),
        "external": any(row.external for row in rows),
    }
