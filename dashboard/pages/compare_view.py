"""A comparison as its address asks for it: of sweeps, or of cells."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from headcount.dashboard.pages.compare import ComparePage, asked
from headcount.dashboard.pages.compare_cells import cells_page
from headcount.dashboard.pages.compare_sweeps import sweeps_page


def comparison(session: Session, query: Sequence[tuple[str, str]]) -> ComparePage:
    """The page that a query asks for. Raises `NotFoundError`, `QueryError` for what cannot be compared."""
    wish = asked(query)
    return cells_page(session, wish) if wish.cells else sweeps_page(session, wish)
