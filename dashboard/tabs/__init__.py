"""What each tab of a sweep's page draws, from one reading of the results."""

from collections.abc import Callable

from headcount.dashboard.panel import Figure
from headcount.dashboard.tabs.curves import curve_figures
from headcount.dashboard.tabs.depth import depth_figures
from headcount.dashboard.tabs.grid import grid_figures
from headcount.dashboard.tabs.heads import head_figures
from headcount.dashboard.tabs.paired import paired_figures
from headcount.dashboard.tabs.plan import plan_figures
from headcount.dashboard.tabs.rates import rate_figures
from headcount.dashboard.tabs.speed import speed_figures
from headcount.dashboard.tabs.timeline import timeline_figures
from headcount.dashboard.tabs.view import View as View

FIGURES: dict[str, Callable[[View], list[Figure]]] = {
    "heads": head_figures,
    "grid": grid_figures,
    "paired": paired_figures,
    "rates": rate_figures,
    "curves": curve_figures,
    "depth": depth_figures,
    "speed": speed_figures,
    "timeline": timeline_figures,
    "plan": plan_figures,
}
"""Tab to its figures."""
