"""The results: functions from a session to frozen dataclasses, the same for routes, pages and tables.

    table = ablation_table(session, "head-count")
    curve, squares, tests = head_curve(table), grid(table), paired_statistics(table)

Every number of a sweep is over all of its seeds. A name that is not in the store raises `NotFoundError`, a
question that the sweep cannot answer `QueryError`; both are a `UserError`.
"""

from .briefs import SweepBrief, sweep_brief
from .cells import CellState, CellView, SeedResult, cell_view, cells
from .compared import DunnettFamily, Moderation, Pooling
from .comparisons import CellComparison
from .curves import CurveLine, Grid, GridPanel, HeadCurve, best_cell, grid, head_curve
from .errors import JobErrors, job_errors
from .events import EventView, events_after, newest_event
from .families import Family
from .free import Filters, Statistic, Value, free_table
from .item_pairs import ITEMS, items_table
from .jobs import (
    AllJobsPage,
    AttemptView,
    Difference,
    JobCursor,
    JobPage,
    JobSummary,
    JobView,
    Wish,
    WishedJob,
    all_jobs,
    job_view,
    jobs,
)
from .lookup import NotFoundError, QueryError
from .losses import EvaluationPoint, ProgressPoint, evaluations, progress
from .measured import MEASURED, measured_table
from .named import TABLES, NamedTable, ScalingLaw, named_table
from .noise import NoiseFloor, Resolution
from .reference import OrderAgreement, PublishedMatch, PublishedRow, Reference
from .selection import BestSet, HeadsRule, RateChoice, Standing
from .shapes import LineShape
from .significance import PairedStatistics, paired_statistics
from .sweeps import (
    DataView,
    SweepState,
    SweepSummary,
    SweepView,
    list_sweeps,
    results_version,
    sweep_version,
    sweep_view,
)
from .tables import AblationTable, Repeats, TableRow, ablation_table

__all__ = [
    "ITEMS",
    "MEASURED",
    "TABLES",
    "AblationTable",
    "AllJobsPage",
    "AttemptView",
    "BestSet",
    "CellComparison",
    "CellState",
    "CellView",
    "CurveLine",
    "DataView",
    "Difference",
    "DunnettFamily",
    "EvaluationPoint",
    "EventView",
    "Family",
    "Filters",
    "Grid",
    "GridPanel",
    "HeadCurve",
    "HeadsRule",
    "JobCursor",
    "JobErrors",
    "JobPage",
    "JobSummary",
    "JobView",
    "LineShape",
    "Moderation",
    "NamedTable",
    "NoiseFloor",
    "NotFoundError",
    "OrderAgreement",
    "PairedStatistics",
    "Pooling",
    "ProgressPoint",
    "PublishedMatch",
    "PublishedRow",
    "QueryError",
    "RateChoice",
    "Reference",
    "Repeats",
    "Resolution",
    "ScalingLaw",
    "SeedResult",
    "Standing",
    "Statistic",
    "SweepBrief",
    "SweepState",
    "SweepSummary",
    "SweepView",
    "TableRow",
    "Value",
    "Wish",
    "WishedJob",
    "ablation_table",
    "all_jobs",
    "best_cell",
    "cell_view",
    "cells",
    "evaluations",
    "events_after",
    "free_table",
    "grid",
    "head_curve",
    "items_table",
    "job_errors",
    "job_view",
    "jobs",
    "list_sweeps",
    "measured_table",
    "named_table",
    "newest_event",
    "paired_statistics",
    "progress",
    "results_version",
    "sweep_brief",
    "sweep_version",
    "sweep_view",
]
