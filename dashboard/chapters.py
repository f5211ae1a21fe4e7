"""Every tab of a sweep with its views, as the report holds them: what one can choose on the page."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

from sqlalchemy.orm import Session

from headcount.api.results import AblationTable, PairedStatistics
from headcount.dashboard import text
from headcount.dashboard.choice import TABS, Choice, choose, tabs_of
from headcount.dashboard.pages.sweep import curve_of
from headcount.dashboard.panel import Figure
from headcount.dashboard.tabs import FIGURES, View

SHOWN_ALL = ("y", "of")
"""The options of which every value is a view, as every value of a filter is; of the others the default is."""

MOST_VIEWS = 12
"""Of one tab: the page has the others."""

Draw = Callable[[Choice], list[Figure]]


@dataclass(frozen=True)
class SideView:
    """One further view of a tab."""

    words: str
    """What is chosen in it."""
    figures: tuple[Figure, ...]


@dataclass(frozen=True)
class Chapter:
    """One tab."""

    name: str
    label: str
    figures: tuple[Figure, ...]
    """Of the view that the page opens with."""
    further: tuple[SideView, ...]
    """Those that have something to draw."""
    left_out: int
    """Views over `MOST_VIEWS`."""


def chapters(
    session: Session,
    table: AblationTable,
    statistics: PairedStatistics,
    read: Callable[[str], bytes | None],
) -> Iterator[Chapter]:
    """The chapters in the order of the tabs, with figures whose ids differ.

    `read` opens an artifact by its key.
    """
    for tab in tabs_of(table):
        if tab not in FIGURES:
            yield Chapter(tab, TABS[tab], (), (), 0)
            continue
        curve = curve_of(table, tab)

        def draw(choice: Choice) -> list[Figure]:
            made = FIGURES[choice.tab](
                View(session, table, statistics, curve, choice, choice.measure, read)  # noqa: B023
            )
            # beside the U stands the grid, which has a chapter of its own
            return [one for one in made if choice.tab == "grid" or not one.id.startswith("grid-")]

        opened = choose(table, curve, {"tab": tab})
        others = [choose(table, curve, query) for query in _other_queries(opened)]
        yield _chapter(opened, others, draw)


def _chapter(opened: Choice, others: list[Choice], draw: Draw) -> Chapter:
    first = draw(opened)
    known = {figure.id: [figure] for figure in first}
    further = []
    for choice in others[: MOST_VIEWS - 1]:
        new = []
        for figure in draw(choice):
            alike = known.setdefault(figure.id, [])
            if figure not in alike and figure.drawn["data"]:
                alike.append(figure)
                new.append(replace(figure, id=f"{figure.id}-{len(alike)}") if len(alike) > 1 else figure)
        if new:
            further.append(SideView(_words(choice), tuple(new)))
    is_drawn = any(figure.drawn["data"] for figure in first)
    left_out = max(0, len(others) + 1 - MOST_VIEWS) if is_drawn else 0
    return Chapter(opened.tab, TABS[opened.tab], tuple(first), tuple(further), left_out)


def _other_queries(opened: Choice) -> list[dict[str, str]]:
    """Those of the tab's other views."""
    chosen = {option.name: option.chosen for option in opened.options if option.name in SHOWN_ALL}
    chosen |= {filter.axis: filter.chosen for filter in opened.filters}
    values = {option.name: list(option.values) for option in opened.options if option.name in chosen}
    values |= {filter.axis: list(filter.values) for filter in opened.filters}
    all_ = [dict(zip(values, one, strict=True)) for one in product(*values.values())]
    return [{"tab": opened.tab} | one for one in all_ if one != chosen]


def _words(choice: Choice) -> str:
    parts = [option.values[option.chosen] for option in choice.options if option.name in SHOWN_ALL]
    parts += [f"{text.short(one.axis)}{text.NO_BREAK}{one.chosen}" for one in choice.filters]
    return " · ".join(parts)
