"""Each page as HTML, from a session: what the routes answer, and the report writes to a file."""

from typing import Any

from sqlalchemy.orm import Session

from headcount.api.results import CellView, SeedResult
from headcount.api.results.compare import Difference
from headcount.api.results.noise import Resolution
from headcount.api.results.reference import KEPT
from headcount.api.results.tables import ESTIMATOR
from headcount.dashboard import text
from headcount.dashboard.pages.compare import ComparePage
from headcount.dashboard.pages.compare_cells import MOST_CELLS
from headcount.dashboard.pages.compare_sweeps import MOST_SWEEPS
from headcount.dashboard.pages.job import job_page
from headcount.dashboard.pages.job_figures import FOR_PAPER
from headcount.dashboard.pages.job_logs import LAST_LINES, Read
from headcount.dashboard.pages.reference import COMPARED, ReferencePage
from headcount.dashboard.pages.sweep import SweepPage
from headcount.dashboard.pages.sweeps import SORTS, STATES, SweepsPage
from headcount.dashboard.rendering import render
from headcount.dashboard.tabs.paired import METHODS
from headcount.orchestrator.following.reasons import CAUSES
from headcount.sweeps.statistics import PairedDelta


def sweeps_html(page: SweepsPage) -> str:
    """The list of sweeps, or how to submit the first one."""
    return render("sweeps.html", page=page, asked=page.asked, sorts=SORTS, states=STATES, to_go=text.to_go)


def sweep_html(page: SweepPage) -> str:
    """One sweep."""
    return render("sweep.html", live=True, **sweep_values(page))


def compare_html(page: ComparePage) -> str:
    """Sweeps or cells side by side."""
    most = {"sweep": MOST_SWEEPS, "cell": MOST_CELLS}
    return render(
        "compare.html", page=page, most=most, cell_name=text.cell_name, estimator=ESTIMATOR, pairs=_pairs
    )


def _pairs(difference: Difference) -> str:
    if isinstance(difference, PairedDelta):
        return str(difference.n)
    return f"none: {difference.n_treatment} and {difference.n_control}"


def reference_html(page: ReferencePage) -> str:
    """Published figures beside ours."""
    return render("reference.html", page=page, compared=COMPARED, kept=KEPT, cell_name=text.cell_name)


def job_html(session: Session, job_id: str, read: Read) -> str:
    """One job; `read` opens an artifact by its key. Raises `NotFoundError`."""
    page = job_page(session, job_id, read)
    return render("job.html", page=page, last_lines=LAST_LINES, for_paper=FOR_PAPER)


def sweep_values(page: SweepPage) -> dict[str, Any]:
    """What the template of a sweep needs beside the page itself."""
    family = page.statistics.family
    percent = f"{page.statistics.confidence:.0%}".replace("%", " %")
    paired = (
        f"Loss: {page.statistics.estimator}. Delta: treatment minus control at the same seed; negative is "
        f"better. Interval and p: {page.statistics.test}. {METHODS[family.method]}'s p over the family of "
        f"{text.plural(family.size, 'comparison')}: {family.name}. {_resolution(page.statistics.resolution)}"
        f"Data version {page.statistics.version}."
    )
    seeds = sorted({result.seed for cell in page.cells for result in cell.results})
    notes = {"paired": paired, "percent": percent, "method": METHODS[family.method]}
    names = {row.cell: text.cell_name(row.settings, row.is_control) for row in page.table.rows}
    return {
        "page": page,
        "seeds": seeds,
        "notes": notes,
        "dict_by_seed": _by_seed,
        "cell_names": names,
        "causes": CAUSES,
    }


def _resolution(told: Resolution) -> str:
    """What the design can see, so that "no difference" is read right."""
    if told.smallest_difference is None:
        return ""
    more = f"; {told.resolution:g} takes {told.seeds_needed:,} seeds" if told.seeds_needed else ""
    return (
        f"Over this family {text.plural(told.seeds, 'seed')} would find a true delta of "
        f"{text.number(told.smallest_difference)} with 80 % probability{more}. "
    )


def _by_seed(cell: CellView) -> dict[int, SeedResult]:
    return {result.seed: result for result in cell.results}
