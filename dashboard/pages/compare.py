"""What the page of a comparison shows: two to four sweeps side by side, or a few cells."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from headcount.api.results import QueryError
from headcount.api.results.compare import ComparedCell, FieldDifference
from headcount.dashboard.figures.bars import Measure
from headcount.dashboard.panel import Figure
from headcount.trainer.errors import nearest

MOST_LINES = 100
"""Of the table of cells; a value of an axis shows others."""


@dataclass(frozen=True)
class Values:
    """An axis of which the figures show one value."""

    axis: str
    values: tuple[str, ...]
    chosen: str


@dataclass(frozen=True)
class Side:
    """One of the compared: its name, and the address of the page without it."""

    name: str
    sweep: str
    without: str


@dataclass(frozen=True)
class ComparePage:
    """Everything on the page."""

    kind: str
    """`sweep` or `cell`: what is compared, and the parameter of the address that names each."""
    sides: tuple[Side, ...]
    others: tuple[tuple[str, str], ...]
    """What can be added: the value for the address, and its name."""
    measure: Measure
    filters: tuple[Values, ...]
    figures: tuple[Figure, ...]
    cells: tuple[ComparedCell, ...]
    """At most `MOST_LINES`."""
    found: int
    """Cells that the filters let through."""
    fields: tuple[FieldDifference, ...]
    state: tuple[tuple[str, str], ...]
    """The address, complete."""

    def query(self, **changed: str) -> str:
        """The address's query, with other values of `y` or an axis."""
        return urlencode([(name, changed.get(name, value)) for name, value in self.state])


@dataclass(frozen=True)
class Asked:
    """What an address asks for."""

    sweeps: tuple[str, ...]
    cells: tuple[str, ...]
    y: str | None
    axes: dict[str, str]
    """Axis to the value that is to be shown."""


def asked(query: Sequence[tuple[str, str]]) -> Asked:
    """What a query asks for. Raises `QueryError` for what cannot be compared."""
    sweeps = tuple(dict.fromkeys(value for name, value in query if name == "sweep"))
    cells = tuple(dict.fromkeys(value for name, value in query if name == "cell"))
    if sweeps and cells:
        raise QueryError("sweeps and cells are not compared with each other; leave out one of the two")
    axes = {name: value for name, value in query if name not in ("sweep", "cell")}
    y = axes.pop("y", None)
    if y not in (None, "delta", "loss"):
        raise QueryError(f"y is {y!r}; {nearest(y, ('loss', 'delta'))}")
    return Asked(sweeps, cells, y, axes)


def at_most(most: int, names: Sequence[str], what: str) -> None:
    """Raises `QueryError` for more than can be seen side by side."""
    if len(names) > most:
        raise QueryError(f"{len(names)} {what} are too many to see side by side; choose at most {most}")


def without(state: Sequence[tuple[str, str]], left_out: tuple[str, str]) -> str:
    """The query of an address without one of its parts."""
    return urlencode([part for part in state if part != left_out])
