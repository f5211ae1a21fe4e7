"""Every test of a sweep as tables: of each delta to its control, and of the shape of each line."""

from typing import Any

from headcount.api.results.compared import compared
from headcount.api.results.families import Family, alpha_of
from headcount.api.results.lookup import QueryError
from headcount.api.results.records import Record, difference, provenance, settings, shared_provenance
from headcount.api.results.shapes import LineShape, shape_family, shaped_lines
from headcount.api.results.tables import AblationTable
from headcount.sweeps.statistics import Estimate, PairedDelta


def comparison_records(table: AblationTable) -> tuple[list[Record], Family]:
    """A row a comparison: the delta with its own error, and its p and interval by every other test."""
    found = compared(table)
    records = []
    for one in found.comparisons:
        delta, ranks = one.delta, one.signed_rank
        records.append(
            settings(table, table.row(one.cell))
            | difference(delta)
            | _test(delta)
            | {"adjusted_p": one.adjusted_p, "bh_p": one.bh_p, "by_p": one.by_p}
            | {"smallest_difference": one.smallest_difference}
            | {"sign_flip_p": one.sign_flip_p}
            | {"signed_rank": ranks.positive if ranks else None, "signed_rank_p": ranks.p if ranks else None}
            | {"rank_floor": one.sign_flip_floor, "outperforming": one.outperforming}
            | _interval("pooled", one.pooled)
            | _interval("moderated", one.moderated)
            | _interval("welch", one.unpaired)
            | _interval("dunnett", one.dunnett, p=one.dunnett_p)
            | _interval("simultaneous", one.simultaneous)
            | {"simultaneous_error": one.simultaneous_error}
            | {"n": table.row(one.cell).n}
            | provenance(table.row(one.cell))
        )
    return records, found.family


def _test(delta: PairedDelta | None) -> Record:
    return {
        "se": delta.se if delta else None,
        "t": delta.t if delta else None,
        "df": delta.df if delta else None,
        "effect_size": delta.effect_size if delta else None,
        "correlation": delta.correlation if delta else None,
    }


def _interval(name: str, estimate: Estimate | None, *, p: float | None = None) -> Record:
    """Ends and p; `p` in place of the estimate's own."""
    own = estimate.p if estimate else None
    return {
        f"{name}_low": estimate.low if estimate else None,
        f"{name}_high": estimate.high if estimate else None,
        f"{name}_p": own if p is None else p,
    }


def shape_records(table: AblationTable) -> tuple[list[Record], Family]:
    """A row a line of the head curve: the rise of each end over the middle, flatness, and the fitted shapes.

    Raises `QueryError` where the sweep's file fixes no analysis.
    """
    alpha = alpha_of(table)
    found = shaped_lines(table, alpha)
    if not found:
        raise QueryError(f"sweep {table.sweep!r} fixes no `analysis:` over an axis, by which a U is told")
    records = []
    for line, one in found:
        rows = [row for row in line.points if row]
        records.append(
            dict(one.settings)
            | _contrasts(one)
            | _fits(one)
            | {"note": one.note, "fewest_seeds": min((row.n for row in rows), default=None)}
            | shared_provenance(rows)
        )
    return records, shape_family(table, [one for _, one in found], alpha)


def _contrasts(one: LineShape) -> Record:
    shape = one.shape
    rises: dict[str, Any] = {}
    for contrast in shape.ends if shape else ():
        rise = contrast.rise
        rises |= {f"rise_{contrast.end:g}": rise.mean, f"rise_{contrast.end:g}_p": contrast.p}
        rises |= {f"rise_{contrast.end:g}_low": rise.low, f"rise_{contrast.end:g}_high": rise.high}
    curve, middle = (shape.flat_curve, shape.flat_middle) if shape else (None, None)
    return {
        "middle": shape.middle if shape else None,
        **rises,
        "p": shape.p if shape else None,
        "adjusted_p": one.adjusted_p,
        "u_shaped": one.rejected,
        "flat_margin": curve.margin if curve else None,
        "flat_p": curve.p if curve else None,
        "flat_middle_p": middle.p if middle else None,
    }


def _fits(one: LineShape) -> Record:
    fit, lines, bend, ranks = one.parabola, one.lines, one.curvature, one.friedman
    return {
        "minimum": fit.minimum if fit else None,
        "minimum_low": fit.low if fit else None,
        "minimum_high": fit.high if fit else None,
        "parabola_p": fit.p if fit else None,
        "two_lines_p": lines.p if lines else None,
        "curvature": bend.mean if bend else None,
        "curvature_low": bend.low if bend else None,
        "curvature_high": bend.high if bend else None,
        "friedman": ranks.statistic if ranks else None,
        "friedman_p": ranks.p if ranks else None,
    }
