"""What every tab draws from: one reading of the results, and what the address has chosen of it."""

from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import quote

from sqlalchemy.orm import Session

from headcount.api.results import AblationTable, HeadCurve, PairedStatistics
from headcount.dashboard.choice import Choice
from headcount.dashboard.figures.bars import Bars, Measure, bars
from headcount.dashboard.rendering import ROOT


def nothing_kept(key: str) -> bytes | None:
    """For views of what the store alone tells."""
    return None


class View(NamedTuple):
    """What a tab draws from."""

    session: Session
    table: AblationTable
    statistics: PairedStatistics
    curve: HeadCurve | None
    """Over the axis that this tab has across; none in a sweep without axes."""
    choice: Choice
    measure: Measure
    read: Callable[[str], bytes | None] = nothing_kept
    """The content of an artifact by its key; None where it is gone."""

    @property
    def bars(self) -> Bars:
        """The bars that are chosen, or the measure's own."""
        return bars(self.table, self.statistics, self.measure, self.choice.spread)

    def api(self, path: str) -> str:
        """The address of something that the API has of this sweep."""
        return f"{ROOT.get()}/api/v1/sweeps/{quote(self.table.sweep, safe='')}/{path}"
