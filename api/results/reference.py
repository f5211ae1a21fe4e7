"""Published figures beside a sweep's cells, compared in sign and order only: corpus and recipe differ."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from headcount.orchestrator.store.models import Job, Sweep, SweepJob

FOLDER = Path(__file__).parent.parent / "published"

GRIDS = (
    "grid_h_kv_100m_undertrained",
    "grid_h_kv_100m_converged",
    "grid_h_kv_1b",
    "head_count_by_scale",
)
METHODS = ("v1_main_loss", "v2_main_loss", "v1_best_lr", "lr_points", "v1_seed_robustness")

_STREAMS = {
    "additive": ("additive", None),
    "baseline": ("additive", None),
    "attention_h1": ("mhar", 1),
    "mhar_h16": ("mhar", 16),
    "hyper_connections": ("hyper_connections", None),
}
"""A published method as residual stream and routing heads; `mhar` alone does not tell its heads."""

Sign = Literal["same", "opposite", "open"]


@dataclass(frozen=True)
class PublishedRow:
    """One published number, with its recipe as the source gives it; what it leaves open is None."""

    table: str
    """The file in `api/published`."""
    scale: str
    residual: str
    routing_heads: int | None
    kv_heads: int | None
    loss: float | None
    delta: float | None
    """To the source's own baseline; negative is better."""
    corpus: str
    peak_lr: str
    steps: str
    estimator: str
    seeds: str
    query_init: str
    source: str


@dataclass(frozen=True)
class PublishedMatch:
    """A published row of the same residual stream, routing heads and, where it tells them, KV heads."""

    cell: int
    published: PublishedRow
    same_scale: bool
    sign: Sign | None
    """Of the two deltas: `open` where our interval holds 0; None where either side has none."""


@dataclass(frozen=True)
class OrderAgreement:
    """How often two cells of ours lie in the published order, within one table at one scale and recipe."""

    table: str
    scale: str
    recipe: str
    cells: tuple[int, ...]
    pairs: int
    """Pairs of cells that both sides tell apart."""
    agreeing: int


@dataclass(frozen=True)
class Reference:
    """What is published of a sweep's cells. Numbers of different recipes: never subtract one from another."""

    name: str
    matches: tuple[PublishedMatch, ...]
    orders: tuple[OrderAgreement, ...]


KEPT = tuple(sorted(file.stem for file in FOLDER.glob("*.csv") if file.stem not in {*GRIDS, *METHODS}))
"""Tables whose rows name no cell: they are shown as they are."""


def published_table(name: str) -> tuple[dict[str, str], ...]:
    """The rows of one of `GRIDS`, `METHODS` or `KEPT` as the file has them, column to text."""
    with open(FOLDER / f"{name}.csv", encoding="utf-8", newline="") as text:
        return tuple(csv.DictReader(text))


@cache
def published_rows() -> tuple[PublishedRow, ...]:
    """Every published row that names a residual stream, in the order of the files."""
    return tuple(row for name in (*GRIDS, *METHODS) for row in _rows(name))


def _rows(name: str) -> Iterator[PublishedRow]:
    for row in published_table(name):
        heads = row.get("routing_heads", "")
        method = row.get("method") or (heads if heads == "baseline" else "")
        if method not in _STREAMS and not heads.isdigit():
            continue
        residual, fixed = _STREAMS.get(method, ("mhar", int(heads) if heads.isdigit() else None))
        yield PublishedRow(
            table=name,
            scale=row["scale"],
            residual=residual,
            routing_heads=fixed,
            kv_heads=int(row["kv_heads"]) if row.get("kv_heads") else None,
            loss=_number(row.get("val_loss")),
            delta=_number(row.get("delta") or row.get("delta_to_baseline") or row.get("delta_mean")),
            corpus=row.get("corpus", ""),
            **{k: row[k] for k in ("peak_lr", "steps", "estimator", "seeds", "query_init", "source")},
        )


def _number(text: str | None) -> float | None:
    return float(text) if text else None


@dataclass(frozen=True)
class OwnCell:
    """What is compared of a cell of ours."""

    cell: int
    is_control: bool
    mean: float | None
    delta: float | None
    shown: bool
    """Whether the delta's interval leaves 0 out."""


def cell_configs(session: Session, sweep: Sweep) -> dict[int, dict[str, Any]]:
    """The configuration of one job of every cell."""
    one = select(func.min(SweepJob.job_id)).where(SweepJob.sweep_id == sweep.id).group_by(SweepJob.cell_id)
    query = select(SweepJob.cell_id, Job.config).join(Job, Job.id == SweepJob.job_id)
    return dict(session.execute(query.where(SweepJob.sweep_id == sweep.id, Job.id.in_(one))).all())


def reference(cells: Sequence[OwnCell], configs: Mapping[int, Mapping[str, Any]]) -> Reference:
    """The published rows of these cells, and how far sign and order agree."""
    matches = []
    for own in cells:
        config = configs.get(own.cell, {})
        for row in published_rows():
            if _matches(row, config):
                same_scale = row.scale == config.get("model.scale")
                matches.append(PublishedMatch(own.cell, row, same_scale, _sign(own, row)))
    return Reference("paper", tuple(matches), tuple(_orders(cells, configs, matches)))


def _matches(row: PublishedRow, config: Mapping[str, Any]) -> bool:
    if row.residual != config.get("model.residual"):
        return False
    if row.routing_heads is not None and row.routing_heads != config.get("model.routing_heads"):
        return False
    return row.kv_heads is None or row.kv_heads == config.get("model.kv_heads")


def _sign(own: OwnCell, row: PublishedRow) -> Sign | None:
    if own.is_control or own.delta is None or not row.delta:
        return None
    if not own.shown:
        return "open"
    return "same" if (own.delta < 0) == (row.delta < 0) else "opposite"


def _orders(
    cells: Sequence[OwnCell], configs: Mapping[int, Mapping[str, Any]], matches: Sequence[PublishedMatch]
) -> Iterator[OrderAgreement]:
    """Within one published table at one recipe, and one recipe of ours."""
    means = {own.cell: own.mean for own in cells}
    groups: dict[tuple[str, ...], dict[int, float]] = {}
    for match in matches:
        row = match.published
        if row.loss is None:
            continue
        config = configs[match.cell]
        ours = str([config.get(k) for k in ("model.scale", "train.peak_lr", "train.steps", "data.source")])
        key = (row.table, row.scale, recipe_of(row), ours)
        groups.setdefault(key, {})[match.cell] = row.loss
    for (table, scale, recipe, _), published in groups.items():
        told = {cell: mean for cell in published if (mean := means[cell]) is not None}
        agree = [_agree(published, told, a, b) for a, b in combinations(told, 2)]
        pairs = [one for one in agree if one is not None]
        if pairs:
            yield OrderAgreement(table, scale, recipe, tuple(told), len(pairs), sum(pairs))


def _agree(published: Mapping[int, float], ours: Mapping[int, float], a: int, b: int) -> bool | None:
    """Whether two cells lie in the published order; None where one side does not tell them apart."""
    if published[a] == published[b] or ours[a] == ours[b]:
        return None
    return (published[a] < published[b]) == (ours[a] < ours[b])


def recipe_of(row: PublishedRow) -> str:
    """What a published row shares with those that its order is compared with, in words."""
    kv_heads = "" if row.kv_heads is None else f"{row.kv_heads} KV heads"
    rate = f"LR {row.peak_lr}" if row.peak_lr else ""
    return ", ".join(part for part in (kv_heads, row.corpus, rate, row.steps) if part)


def place_of(
    match: PublishedMatch, reference: Reference, means: Mapping[int, float | None]
) -> tuple[int, int]:
    """Of the pairs that a match's cell is in, within its published table: in the published order, and all."""
    row = match.published
    group = next(
        (
            order.cells
            for order in reference.orders
            if (order.table, order.scale, order.recipe) == (row.table, row.scale, recipe_of(row))
            and match.cell in order.cells
        ),
        (),
    )
    published = {
        other.cell: other.published.loss
        for other in reference.matches
        if other.cell in group
        and other.published.loss is not None
        and (other.published.table, other.published.scale) == (row.table, row.scale)
        and recipe_of(other.published) == recipe_of(row)
    }
    ours = {cell: mean for cell in published if (mean := means.get(cell)) is not None}
    if match.cell not in ours:
        return 0, 0
    agree = [_agree(published, ours, match.cell, other) for other in ours if other != match.cell]
    told = [one for one in agree if one is not None]
    return sum(told), len(told)
