"""Rows of a table from losses by seed, for figures."""

from typing import Any

from headcount.api.results import TableRow
from headcount.sweeps.statistics import mean_estimate, paired_delta

CONTROL_LOSSES = {0: 3.50, 1: 3.52, 2: 3.54}
CONTROL = 1
"""The cell that every row is paired with."""


def row(cell: int, losses: dict[int, float], settings: dict[str, Any] | None = None, **more: Any) -> TableRow:
    """A treatment with these tail means; `more` overrides fields, as for a cell that is not done."""
    spread = mean_estimate(list(losses.values()))
    fields: dict[str, Any] = {
        "cell": cell,
        "settings": settings or {},
        "is_control": False,
        "control": CONTROL,
        "state": "done",
        "rank": None,
        "n": spread.n,
        "mean": spread.mean,
        "sd": spread.sd,
        "se": spread.se,
        "seeds": tuple(losses),
        "losses": tuple(losses.values()),
        "seeds_missing": (),
        "seeds_diverged": (),
        "seeds_failed": (),
        "delta": paired_delta(losses, CONTROL_LOSSES),
        "parameters": None,
        "flops": None,
        "note": "",
    }
    return TableRow(**fields | more)


def control() -> TableRow:
    return row(CONTROL, CONTROL_LOSSES, is_control=True, control=None, delta=None)
