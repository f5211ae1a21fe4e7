"""What the bars of a figure show: four spreads, each by its name, of a loss or of a delta."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from headcount.api.results import AblationTable, CellComparison, PairedStatistics, TableRow
from headcount.dashboard import text
from headcount.sweeps.statistics import Estimate, mean_estimate, simultaneous

Measure = Literal["loss", "delta"]
Spread = Literal["sd", "se", "t", "simultaneous"]

SPREADS: tuple[Spread, ...] = ("sd", "se", "t", "simultaneous")
NAMES = {
    "sd": "± 1 SD",
    "se": "± 1 SE",
    "t": "t interval",
    "simultaneous": "Simultaneous",
}
"""Each spread as one chooses it."""

DEFAULT: dict[Measure, Spread] = {"loss": "se", "delta": "t"}


class Bar(NamedTuple):
    """A mean with the ends of its bar, which are None where one seed tells no spread."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Bars:
    """One spread of one measure, for the cells of one table."""

    measure: Measure
    spread: Spread
    words: str
    """As a caption says it."""
    confidence: float
    cells: int
    """Treatments that the simultaneous intervals of their losses hold for."""
    comparisons: Mapping[int, CellComparison]

    def of(self, row: TableRow) -> Bar | None:
        """The bar of a row; None where it has no mean, or no delta."""
        found = self._loss(row) if self.measure == "loss" else self._delta(row)
        return None if found is None or found.mean is None else self._bar(row, found)

    def _bar(self, row: TableRow, found: Estimate) -> Bar:
        assert found.mean is not None
        if self.spread in ("t", "simultaneous"):
            return Bar(found.mean, found.low, found.high)
        source = row if self.measure == "loss" else row.delta
        assert source is not None
        half = source.sd if self.spread == "sd" else source.se
        return (
            Bar(found.mean, None, None)
            if half is None
            else Bar(found.mean, found.mean - half, found.mean + half)
        )

    def _loss(self, row: TableRow) -> Estimate | None:
        if row.mean is None:
            return None
        found = mean_estimate(row.losses, confidence=self.confidence)
        if self.spread == "simultaneous":
            return simultaneous(found, max(1, self.cells), confidence=self.confidence)
        return found

    def _delta(self, row: TableRow) -> Estimate | None:
        if self.spread == "simultaneous" and row.cell in self.comparisons:
            return self.comparisons[row.cell].simultaneous or row.delta
        return row.delta


def bars(
    table: AblationTable, statistics: PairedStatistics, measure: Measure, spread: Spread | None = None
) -> Bars:
    """The bars of a table's cells; by default one standard error of a loss, the t interval of a delta."""
    chosen = spread or DEFAULT[measure]
    cells = len(table.treatments)
    compared = statistics.family.size if measure == "delta" else cells
    return Bars(
        measure,
        chosen,
        _words(measure, chosen, table.confidence, compared),
        table.confidence,
        cells,
        {c.cell: c for c in statistics.comparisons},
    )


def _words(measure: Measure, spread: Spread, confidence: float, compared: int) -> str:
    percent = f"{confidence:.0%}".replace("%", f"{text.NO_BREAK}%")
    of_what = "of the paired deltas" if measure == "delta" else "between seeds"
    if spread == "sd":
        return f"± 1 standard deviation {of_what}"
    if spread == "se":
        return f"± 1 standard error {of_what}"
    if spread == "t":
        paired = "paired by seed" if measure == "delta" else "over seeds"
        return f"{percent} t{text.NO_BREAK}interval, {paired}"
    what = "comparison" if measure == "delta" else "cell"
    return f"{percent} intervals of all {text.plural(compared, what)} at once (Bonferroni)"
