"""What the page of published figures shows: one of their tables, our cells beside it, and both recipes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.api.results import (
    AblationTable,
    PublishedMatch,
    PublishedRow,
    QueryError,
    TableRow,
    ablation_table,
)
from headcount.api.results.lookup import find_sweep
from headcount.api.results.reference import (
    GRIDS,
    KEPT,
    METHODS,
    cell_configs,
    place_of,
    published_rows,
    published_table,
)
from headcount.dashboard import text
from headcount.orchestrator.store.models import Sweep
from headcount.trainer.errors import nearest
from headcount.trainer.scales import DEVIATIONS

MOST_LINES = 100
MOST_SWEEPS = 500
"""That the page offers, the newest."""

COMPARED = (*GRIDS, *METHODS)
"""Tables whose rows name cells."""

RECIPE = ("scale", "corpus", "peak_lr", "steps", "estimator", "seeds", "query_init", "source")
"""What a published row tells of how it was made."""

_OURS = {
    "scale": "model.scale",
    "corpus": "data.source",
    "peak_lr": "train.peak_lr",
    "steps": "train.steps",
    "query_init": "model.query_init",
    "batch_tokens": "train.batch_tokens",
    "context": "data.context",
    "precision": "train.precision",
}

SIGNS = {
    "same": "same sign",
    "opposite": "opposite sign",
    "open": "open: our interval holds 0",
    None: "no delta to compare",
}


@dataclass(frozen=True)
class ReferenceLine:
    """One published row with one cell of ours, where there is one."""

    published: PublishedRow
    ours: TableRow | None
    sign: str
    order: str
    """In words; empty without a cell, and where no other cell is told apart from it."""
    differs: bool
    """Whether sign or order are not the published ones."""


@dataclass(frozen=True)
class ReferencePage:
    """Everything on the page."""

    sweep: str
    """Empty for the published figures alone."""
    table: str
    sweeps: tuple[str, ...]
    lines: tuple[ReferenceLine, ...]
    """At most `MOST_LINES`; none of a table in `KEPT`."""
    found: int
    summary: tuple[str, ...]
    """What agrees, in words."""
    recipe: tuple[tuple[str, str, str], ...]
    """Name, published and ours."""
    kept: tuple[dict[str, str], ...]
    """Rows of a table in `KEPT`, as published."""
    kept_found: int

    def query(self, **changed: str) -> str:
        """The address's query."""
        return urlencode({"sweep": self.sweep, "table": self.table} | changed)


def reference_page(session: Session, query: Mapping[str, str]) -> ReferencePage:
    """The page that a query asks for; by default the newest sweep, and the first table that has its cells.

    Raises `NotFoundError` and `QueryError`.
    """
    for name in query:
        if name not in ("sweep", "table"):
            raise QueryError(f"this page knows no {name!r}; {nearest(name, ('sweep', 'table'))}")
    newest = select(Sweep.name).order_by(Sweep.created.desc(), Sweep.id.desc()).limit(MOST_SWEEPS)
    sweeps = tuple(session.scalars(newest))
    sweep = query.get("sweep", sweeps[0] if sweeps else "")
    ours = ablation_table(session, sweep, with_reference=True) if sweep else None
    matches = ours.reference.matches if ours and ours.reference else ()
    told = {match.published.table for match in matches}
    table = query.get("table") or next((name for name in COMPARED if name in told), COMPARED[0])
    if table not in (*COMPARED, *KEPT):
        raise QueryError(f"no table is called {table!r}; {nearest(table, (*COMPARED, *KEPT))}")
    kept = published_table(table) if table in KEPT else ()
    lines = _lines(table, ours, matches) if table in COMPARED else []
    configs = cell_configs(session, find_sweep(session, sweep)) if sweep else {}
    return ReferencePage(
        sweep=sweep,
        table=table,
        sweeps=sweeps,
        lines=tuple(lines[:MOST_LINES]),
        found=len(lines),
        summary=tuple(_summary(lines)),
        recipe=_recipe(lines, ours, configs),
        kept=kept[:MOST_LINES],
        kept_found=len(kept),
    )


def _lines(
    table: str, ours: AblationTable | None, matches: tuple[PublishedMatch, ...]
) -> list[ReferenceLine]:
    means = {row.cell: row.mean for row in ours.rows} if ours else {}
    of_table = [match for match in matches if match.published.table == table]
    lines = []
    for row in (row for row in published_rows() if row.table == table):
        found = [match for match in of_table if match.published is row]
        if not found:
            lines.append(ReferenceLine(row, None, "", "", False))
        for match in found:
            assert ours is not None
            assert ours.reference is not None
            agreeing, pairs = place_of(match, ours.reference, means)
            order = "" if not pairs else "same order" if agreeing == pairs else f"{agreeing} of {pairs} pairs"
            own = ours.row(match.cell)
            differs = match.sign == "opposite" or agreeing < pairs
            sign = "" if own.mean is None else SIGNS[match.sign]
            lines.append(ReferenceLine(row, own, sign, order, differs))
    return lines


def _summary(lines: list[ReferenceLine]) -> list[str]:
    known = [line for line in lines if line.ours and line.ours.mean is not None]
    if not known:
        return []
    words = [f"{len(known)} of {text.plural(len(lines), 'row')} beside a cell of ours"]
    signs = [(sign, sum(line.sign == sign for line in known)) for sign in SIGNS.values()]
    words += [f"{count} {sign}" for sign, count in signs if count]
    ordered = [line for line in known if line.order]
    if ordered:
        same = sum(line.order == "same order" for line in ordered)
        words.append(f"{same} of {len(ordered)} in the published order with all others of their recipe")
    return words


def _recipe(
    lines: list[ReferenceLine], ours: AblationTable | None, configs: Mapping[int, Mapping[str, Any]]
) -> tuple[tuple[str, str, str], ...]:
    """What both sides tell of how they were made; several values where the rows differ."""
    if not lines:
        return ()
    cells = list(dict.fromkeys(line.ours.cell for line in lines if line.ours))
    own = {
        name: _several([text.setting(configs[cell].get(field)) for cell in cells if cell in configs])
        for name, field in _OURS.items()
    }
    if ours and cells:
        own |= {
            "estimator": ours.estimator,
            "seeds": str(len(ours.seeds)),
            "source": f"{ours.sweep}; by default {'; '.join(DEVIATIONS)}",
        }
    published = {name: _several([str(getattr(line.published, name)) for line in lines]) for name in RECIPE}
    names = [*RECIPE[:-1], *(name for name in own if name not in RECIPE), RECIPE[-1]]
    return tuple((name.replace("_", " "), published.get(name, ""), own.get(name, "")) for name in names)


def _several(values: list[str]) -> str:
    """Each value once; a few of many."""
    different = list(dict.fromkeys(value for value in values if value and value != text.NOTHING))
    return "; ".join(different[:6]) + (f"; and {len(different) - 6} more" if len(different) > 6 else "")
