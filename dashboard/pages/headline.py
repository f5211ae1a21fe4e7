"""The answer in a sentence: which cell is lowest, by how much, and whether a U is supported."""

from collections.abc import Sequence
from dataclasses import dataclass

from headcount.api.results import AblationTable, SweepView, TableRow
from headcount.api.results.comparisons import CellComparison
from headcount.api.results.curves import best_cell
from headcount.api.results.shapes import LineShape
from headcount.api.results.significance import PairedStatistics
from headcount.dashboard import text
from headcount.dashboard.choice import constant_axes

ERRORS = {
    "pooled": "the error pooled over all cells",
    "moderated": "its own error, steadied by that of all cells",
    "own_spread": "its own spread, wider than the error that all cells share",
    "own": "its own error",
}
"""What a simultaneous interval rests on."""


@dataclass(frozen=True)
class Headline:
    """`lead` names the finding in bold, `rest` gives its number; `more` are the sentences under it."""

    lead: str
    rest: str
    more: tuple[str, ...]
    badges: tuple[str, ...]
    """What a reader must know before trusting it."""


def headline(sweep: SweepView, table: AblationTable, statistics: PairedStatistics) -> Headline:
    """The headline of a sweep from its results; every number is one of theirs."""
    cell = best_cell(table.treatments, table.fresh_seeds)
    if cell is None:
        lead, rest = _without_best(sweep, table)
        return Headline(lead, rest, (), _badges(sweep, table, None, statistics))
    best = table.row(cell)
    found = next((c for c in statistics.comparisons if c.cell == best.cell), None)
    lower = _lower_with_fewer(best, table)
    return Headline(
        text.settings(best.settings, constant_axes(table)) or "The only cell",
        _lowest(best, found, "of those with the most seeds" if lower else ""),
        tuple(
            filter(
                None,
                (
                    lower,
                    _test(found, statistics),
                    _rivals(best, table, statistics),
                    _shape_of(best, table, statistics),
                ),
            )
        ),
        _badges(sweep, table, best, statistics),
    )


def _without_best(sweep: SweepView, table: AblationTable) -> tuple[str, str]:
    if table.fresh_seeds and best_cell(table.treatments) is not None:
        return "No best cell yet", _searching(sweep)
    if sweep.jobs and sweep.settled == sweep.jobs:
        ended = [f"{n:,} {state}" for state, n in sweep.states.items() if n]
        return "No cell has a mean", f": of {text.plural(sweep.jobs, 'job')} {', '.join(ended)}."
    return "No result yet", _waiting(sweep)


def _waiting(sweep: SweepView) -> str:
    if not sweep.jobs:
        return ": this sweep has no jobs."
    running = sweep.states["running"] + sweep.states["cancelling"]
    return f": {text.plural(sweep.jobs, 'job')}, {running:,} running, {sweep.states['queued']:,} queued."


def _searching(sweep: SweepView) -> str:
    why = "a search names it on fresh seeds, since the lowest of many was also lucky"
    return f": {why}. {_waiting(sweep)[2:]}"


def _lowest(best: TableRow, found: CellComparison | None, among: str) -> str:
    delta = found.delta if found else None
    has = " ".join(filter(None, (" has the lowest loss", among)))
    if delta is None or delta.mean is None:
        return f"{has}: {text.number(best.mean)}, {text.plural(best.n, 'seed')}."
    told = found.simultaneous if found and found.simultaneous else delta
    interval = f"{text.NO_BREAK}{text.interval(told.low, told.high)}" if told.low is not None else ""
    pairs = f"{delta.n}{text.NO_BREAK}paired{text.NO_BREAK}{'seed' if delta.n == 1 else 'seeds'}"
    return f"{has}: {text.signed(told.mean)}{interval} against the control, {pairs}."


def _lower_with_fewer(best: TableRow, table: AblationTable) -> str:
    """What the cells say that have not all seeds yet, and so cannot be named."""
    lowest = best.mean
    if lowest is None or table.fresh_seeds:
        return ""
    lower = [row for row in table.treatments if row.mean is not None and row.mean < lowest and row.n < best.n]
    if not lower:
        return ""
    verb = "is" if len(lower) == 1 else "are"
    return f"{text.plural(len(lower), 'cell')} of fewer seeds {verb} lower still."


def _test(found: CellComparison | None, statistics: PairedStatistics) -> str:
    if found is None or found.delta is None:
        return ""
    family = statistics.family
    if found.simultaneous is None or found.simultaneous_error is None:
        return f"There is no interval and no p: {found.delta.reason}."
    percent = f"{found.simultaneous.confidence:.0%}".replace("%", " %")
    differs = found.simultaneous.p is not None and found.simultaneous.p <= family.alpha
    verdict = "differs from its control" if differs else "is not separable from its control"
    return (
        f"The {percent} interval holds for {text.plural(family.size, 'comparison')} at once, so also for the "
        f"one picked as the lowest; it rests on {ERRORS[found.simultaneous_error]}. The cell {verdict}: "
        f"{text.p_equals(found.simultaneous.p)}, corrected likewise."
    )


def _rivals(best: TableRow, table: AblationTable, statistics: PairedStatistics) -> str:
    """Which cells of the best one's line may be the best as well."""
    line = next((found for found in statistics.best if found.settings.items() <= best.settings.items()), None)
    if line is None or best.cell != line.lowest:
        return ""
    others = [s.cell for s in line.standings if s.may_be_best and s.cell != best.cell]
    axes = [axis for axis in table.axes if axis not in line.settings]
    if not others:
        return f"Every other cell of its line is worse, all {line.size} compared at once."
    rows = {row.cell: row for row in table.treatments}
    names = [text.settings({axis: rows[cell].settings[axis] for axis in axes}) for cell in others]
    return f"Not separable from it: {', '.join(names)} ({line.size} cells of its line compared at once)."


def _shape_of(best: TableRow, table: AblationTable, statistics: PairedStatistics) -> str:
    line = next((s for s in statistics.shapes if s.settings.items() <= best.settings.items()), None)
    return shape_sentence(line, statistics.axis, constant_axes(table)) if line and statistics.axis else ""


def shape_sentence(line: LineShape, axis: str, without: Sequence[str] = ()) -> str:
    """Whether one line is a U, in words; the axes `without` are left out of its name."""
    where = text.settings(line.settings, without)
    at = f" at {where}" if where else ""
    if line.shape is None or line.shape.p is None:
        return f"Whether the curve{at} is a U cannot be told yet: {line.note}."
    shape = line.shape
    middle = " and ".join(text.setting(m) for m in shape.middle)
    ends = " and ".join(text.setting(e.end) for e in shape.ends)
    claim = "is supported" if shape.u_shaped else "is not supported"
    words = (
        f"A U {claim}{at}: {text.short(axis)} {ends} against {text.short(axis)} {middle}, "
        f"{text.p_equals(shape.p)} (the larger of the ends)"
    )
    if shape.flat_middle and shape.flat_middle.equivalent:
        words += f"; the middle is flat within ±{shape.flat_middle.margin:g}"
    return words + "."


def _badges(
    sweep: SweepView, table: AblationTable, best: TableRow | None, statistics: PairedStatistics
) -> tuple[str, ...]:
    badges = ["exploratory: the analysis was edited after submission"] if sweep.exploratory else []
    if best and best.n < 5:
        badges.append(f"n = {best.n}: under 5 seeds")
    for state in ("diverged", "failed", "cancelled"):
        if sweep.states[state]:
            badges.append(f"{text.plural(sweep.states[state], 'job')} {state}")
    waiting = sweep.jobs - sweep.settled
    if waiting:
        badges.append(f"{waiting:,} of {text.plural(sweep.jobs, 'job')} without a result yet")
    if any(row.seeds_missing and row.mean is not None for row in table.rows):
        badges.append("some cells have fewer seeds than planned")
    if best and best.delta and best.delta.n < 2 <= best.n:
        badges.append("unpaired: its seeds are not its control's")
    choice = next((found for found in statistics.rates if best and found.cell == best.cell), None)
    if choice and choice.at_edge:
        badges.append("its learning rate is at the edge of the grid")
    if choice and choice.bias:
        badges.append(
            f"learning rate chosen on the same seeds: up to {text.number(choice.bias)} too low on average"
        )
    return tuple(badges)
