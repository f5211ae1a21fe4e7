"""The ablation table as rows and columns: every field for files, and a readable few for people."""

from dataclasses import dataclass
from typing import Any

from headcount.api.results import AblationTable, NamedTable, PublishedMatch, TableRow
from headcount.sweeps.rendering import amount
from headcount.trainer.scales import DEVIATIONS

DIGITS = 4
"""Decimals of a loss or a delta where people read it. Files for machines are never rounded."""


def records(table: AblationTable) -> list[dict[str, Any]]:
    """One flat row a cell with every field, numbers in full precision, what is not known as None.

    Sets of seeds are tuples. The axes stand under their dotted names.
    """
    own = [_record(table, row) for row in table.rows]
    matches = table.reference.matches if table.reference else ()
    return own + [_published(match, own[0]) for match in matches]


def _published(match: PublishedMatch, like: dict[str, Any]) -> dict[str, Any]:
    """A published figure as a row of the same columns, marked, with its recipe as the note."""
    row = match.published
    recipe = [f"{row.table} at {row.scale}", row.corpus, f"peak LR {row.peak_lr or 'not told'}"]
    recipe += [f"{row.steps} steps", f"queries {row.query_init}" if row.query_init else "", row.source]
    return dict.fromkeys(like) | {
        "model.routing_heads": row.routing_heads,
        "model.kv_heads": row.kv_heads,
        "role": "published",
        "state": f"sign {match.sign}" if match.sign else "no sign to compare",
        "mean": row.loss,
        "delta": row.delta,
        "cell": match.cell,
        "note": "; ".join(part for part in recipe if part),
        "estimator": row.estimator,
        "n": row.seeds or None,
    }


def _record(table: AblationTable, row: TableRow) -> dict[str, Any]:
    delta = row.delta
    return {
        **{axis: row.settings.get(axis) for axis in table.axes},
        "role": "control" if row.is_control else "treatment",
        "state": row.state,
        "rank": row.rank,
        "n": row.n,
        "mean": row.mean,
        "sd": row.sd,
        "se": row.se,
        "seeds": row.seeds,
        "seeds_missing": row.seeds_missing,
        "seeds_diverged": row.seeds_diverged,
        "seeds_failed": row.seeds_failed,
        "delta": delta.mean if delta else None,
        "delta_sd": delta.sd if delta else None,
        "delta_se": delta.se if delta else None,
        "delta_low": delta.low if delta else None,
        "delta_high": delta.high if delta else None,
        "delta_confidence": delta.confidence if delta else None,
        "t": delta.t if delta else None,
        "df": delta.df if delta else None,
        "p": delta.p if delta else None,
        "pairs": delta.n if delta else None,
        "pair_seeds": delta.seeds if delta else None,
        "cell": row.cell,
        "control": row.control,
        "parameters": row.parameters,
        "flops": row.flops,
        "flops_per_token": row.flops_per_token,
        "tokens_per_second": row.tokens_per_second,
        "peak_memory_bytes": row.peak_memory_bytes,
        "mixed_environments": row.mixed_environments,
        "external": row.external,
        "note": _remark(row),
        "estimator": table.estimator,
        "test": table.test,
        "sweep": table.sweep,
        "version": table.version,
    }


@dataclass(frozen=True)
class ReadableTable:
    """A table for people: rounded, as text, with a caption that says what the numbers are."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    """Which columns hold numbers, and align right."""
    caption: str


def readable(table: AblationTable, digits: int = DIGITS) -> ReadableTable:
    """The columns that people need: axes, loss, delta with its interval and p.

    Remarks have a column where there are any, and the number of pairs where it is not that of the losses.
    """
    interval = f"{table.confidence:.0%} interval".replace("%", " %")
    axes = [axis.partition(".")[2].replace("_", " ") or axis for axis in table.axes]
    headings = (*axes, "loss", "sd", "n", "delta", "delta sd", interval, "pairs", "p", "remark")
    rows = [(*_axis_texts(table, row), *_number_texts(row, digits), _remark(row)) for row in table.rows]
    numbers = [all(isinstance(v, int | float) for v in values) for values in table.axes.values()]
    numeric = (*numbers, True, True, True, True, True, False, True, True, False)
    idle = {"remark"} if not any(row[-1] for row in rows) else set()
    if all(row.delta is None or row.delta.n == row.n for row in table.rows):
        idle.add("pairs")  # they are the n
    kept = [i for i, heading in enumerate(headings) if heading not in idle]
    caption = (
        f"Loss: {table.estimator}, mean over n seeds. Delta: treatment minus control at the same seed, "
        f"negative is better; interval and p: {table.test}. "
        f"Seeds {_listed(table.seeds) or 'not told'}; data version {table.version}."
    )
    if table.external:
        caption += " Imported: trained elsewhere, and not replayable here."
    return ReadableTable(
        title=table.sweep,
        headings=tuple(headings[i] for i in kept),
        rows=tuple(tuple(row[i] for i in kept) for row in rows),
        numeric=tuple(numeric[i] for i in kept),
        caption=caption,
    )


def _axis_texts(table: AblationTable, row: TableRow) -> tuple[str, ...]:
    return tuple("—" if axis not in row.settings else _text(row.settings[axis]) for axis in table.axes)


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _number_texts(row: TableRow, digits: int) -> tuple[str, ...]:
    def fixed(value: float | None, sign: str = "") -> str:
        return "—" if value is None else f"{value:{sign}.{digits}f}"

    if row.is_control:
        delta = ("control", "", "", "", "")
    elif row.delta is None:
        delta = ("—",) * 5
    else:
        d = row.delta
        interval = "—" if d.low is None else f"[{fixed(d.low, '+')}, {fixed(d.high, '+')}]"
        p = "—" if d.p is None else _p_text(d.p)
        delta = (fixed(d.mean, "+"), fixed(d.sd), interval, str(d.n), p)
    return fixed(row.mean), fixed(row.sd), str(row.n), *delta


def _p_text(p: float) -> str:
    return "<0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.01 else f"{p:.3f}"


def _remark(row: TableRow) -> str:
    """What a reader must know before trusting the row."""
    remarks = [row.note] if row.note else []
    if row.mixed_environments:
        remarks.append("mixed execution")
    if row.seeds_missing:
        remarks.append(f"seeds missing: {_listed(row.seeds_missing)}")
    if row.delta and row.delta.reason and not remarks:
        remarks.append(row.delta.reason)
    return "; ".join(remarks)


def _listed(seeds: tuple[int, ...]) -> str:
    return ", ".join(map(str, seeds))


def named_records(table: NamedTable) -> list[dict[str, Any]]:
    """The rows of a named table for files: each also tells by which rules its numbers were made."""
    shared = {
        "estimator": table.estimator,
        "test": table.test,
        "family": table.family,
        "family_size": table.size,
        "sweep": table.sweep,
        "version": table.version,
    }
    return [row | shared for row in table.rows]


_WARNINGS = ("mixed_environments", "external")
_BILLION = {"parameters": "B"}


def readable_named(table: NamedTable, digits: int = DIGITS) -> ReadableTable:
    """A named table for people: the columns that tell something, numbers rounded to `digits` decimals.

    The number of a cell, which only files need, is left out, and so is a warning that no row has.
    """
    shown = [
        name
        for name in table.columns
        if name != "cell"
        and any(row[name] not in (None, ()) and (row[name] or name not in _WARNINGS) for row in table.rows)
    ]
    columns = [[row[name] for row in table.rows] for name in shown]
    numeric = tuple(
        all(v is None or (isinstance(v, int | float) and not isinstance(v, bool)) for v in values)
        for values in columns
    )
    caption = f"{table.question} Loss: {table.estimator}; test: {table.test}"
    if table.family is not None:
        caption += f"; adjusted p: {table.family}, {table.size} comparisons"
    if table.law is not None:
        caption += f"; gain in compute for α = {table.law.exponent:g}, E = {table.law.irreducible:g}, assumed"
    return ReadableTable(
        title=f"{table.sweep}: {table.name}",
        headings=tuple(name.rpartition(".")[2].replace("_", " ") for name in shown),
        rows=tuple(
            tuple(_named_text(row[name], digits, _BILLION.get(name, "G")) for name in shown)
            for row in table.rows
        ),
        numeric=numeric,
        caption=f"{caption}; data version {table.version}.",
    )


def _named_text(value: Any, digits: int, billion: str) -> str:
    if value is None or value == ():
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return " ".join(_named_text(item, digits, billion) for item in value)
    if not isinstance(value, int | float):
        return str(value)
    if abs(value) >= 1e5:
        return amount(value, billion)
    if isinstance(value, int):
        return str(value)
    small = abs(value) < 10**-digits
    return f"{value:.4g}" if small else f"{value:.{digits}f}".rstrip("0").rstrip(".")


def readable_reference(table: AblationTable) -> ReadableTable:
    """The published figures of a table for people: each beside its cell, and how far the order agrees."""
    assert table.reference is not None
    rows = []
    for match in table.reference.matches:
        own, row = table.row(match.cell), match.published
        name = ", ".join(f"{a.rpartition('.')[2]} {_text(v)}" for a, v in own.settings.items()) or "control"
        loss = "—" if row.loss is None else f"{row.loss:g}"
        delta = "—" if row.delta is None else f"{row.delta:+g}"
        recipe = (row.scale, row.corpus or "—", row.peak_lr or "—", row.steps)
        rows.append((name, row.table, *recipe, loss, delta, match.sign or "—"))
    orders = [
        f"{o.table} at {o.scale} ({o.recipe}): {o.agreeing} of {o.pairs} pairs in the published order"
        for o in table.reference.orders
    ]
    return ReadableTable(
        title="Published figures: other text and recipe, so only sign and order compare",
        headings=("cell", "published in", "scale", "corpus", "peak lr", "steps", "loss", "delta", "sign"),
        rows=tuple(rows),
        numeric=(False, False, False, False, True, True, True, True, False),
        caption=(
            "; ".join(orders) + "." if orders else "No two of these cells are ordered by a published table."
        )
        + f" By default a job has {'; '.join(DEVIATIONS)}.",
    )
