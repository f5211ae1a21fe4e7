"""Which comparisons of a sweep are corrected for each other: every treatment against its control, by Holm."""

from dataclasses import dataclass

from headcount.api.results.tables import AblationTable, TableRow
from headcount.sweeps.statistics import Comparison, benjamini_hochberg, benjamini_yekutieli, holm

ALPHA = 0.05


@dataclass(frozen=True)
class Family:
    """The comparisons that are corrected for each other. Those without a p count too."""

    name: str
    method: str
    size: int
    alpha: float


def alpha_of(table: AblationTable) -> float:
    """The level that the sweep's file fixes for every test."""
    return float(table.analysis.get("alpha") or ALPHA)


def paired_rows(table: AblationTable) -> list[TableRow]:
    """The treatments that have a control."""
    return [row for row in table.treatments if row.control is not None]


def control_family(table: AblationTable) -> tuple[Family, dict[int, Comparison]]:
    """The family of the deltas, and the comparison of each cell that is paired."""
    rows = paired_rows(table)
    found = holm(f"every cell of {table.sweep} against its control", _p_values(rows), alpha=alpha_of(table))
    members = {row.cell: found.members[str(row.cell)] for row in rows}
    return Family(found.name, found.method, found.size, found.alpha), members


def screened(table: AblationTable) -> dict[int, tuple[float | None, float | None]]:
    """The p of each member of that family by Benjamini and Hochberg, and by Benjamini and Yekutieli."""
    rows = paired_rows(table)
    hochberg, yekutieli = (
        method("screening", _p_values(rows), alpha=alpha_of(table)).members
        for method in (benjamini_hochberg, benjamini_yekutieli)
    )
    return {
        row.cell: (hochberg[str(row.cell)].adjusted_p, yekutieli[str(row.cell)].adjusted_p) for row in rows
    }


def _p_values(rows: list[TableRow]) -> dict[str, float | None]:
    return {str(row.cell): row.delta.p if row.delta else None for row in rows}
