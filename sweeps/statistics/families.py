"""Several comparisons at once: a named, counted family and its corrected p-values."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from headcount.sweeps.statistics.student import Estimate, t_estimate

Method = Literal["holm", "benjamini_hochberg", "benjamini_yekutieli"]


@dataclass(frozen=True)
class Comparison:
    """One member: its own p, the family's corrected p, and whether it is rejected at the family's alpha."""

    p: float | None
    adjusted_p: float | None
    rejected: bool


@dataclass(frozen=True)
class Family:
    """`size` counts every member, also those without a p: it does not change as results come in."""

    name: str
    method: Method
    size: int
    alpha: float
    members: dict[str, Comparison]


def simultaneous(estimate: Estimate, comparisons: int, *, confidence: float = 0.95) -> Estimate:
    """The estimate with an interval and a p that hold for all of `comparisons` at once, by Bonferroni.

    So they hold for whichever of them is picked by looking at the data, such as the lowest. An estimate
    without an error stays as it is. ValueError for fewer than one comparison.
    """
    if comparisons < 1:
        raise ValueError(f"comparisons must be at least 1, but is {comparisons}")
    if estimate.mean is None or not estimate.se or estimate.df is None:
        return estimate
    found = t_estimate(estimate.mean, estimate.se, estimate.df, 1 - (1 - confidence) / comparisons)
    assert found.p is not None
    return replace(found, p=min(1.0, comparisons * found.p), confidence=confidence)


def holm(name: str, p_values: Mapping[str, float | None], *, alpha: float = 0.05) -> Family:
    """Holm's step-down: the chance of any false rejection is at most alpha, whatever the correlations.

    For "these cells beat their control". A member without a p (one seed, not finished, a delta that does not
    vary) counts as if its p were 1. ValueError for a p outside [0, 1].
    """
    return _family(name, "holm", p_values, alpha)


def benjamini_hochberg(name: str, p_values: Mapping[str, float | None], *, alpha: float = 0.05) -> Family:
    """Benjamini and Hochberg's step-up: the expected share of false rejections is at most alpha.

    For screening many cells, not for a claim about one. Valid for independent or positively dependent
    p-values, as those of deltas with a shared control. Members without a p are treated as in `holm`.
    """
    return _family(name, "benjamini_hochberg", p_values, alpha)


def benjamini_yekutieli(name: str, p_values: Mapping[str, float | None], *, alpha: float = 0.05) -> Family:
    """As `benjamini_hochberg`, but for p-values that depend on each other in any way (2001).

    The price is a factor of 1 + ½ + … + 1/m.
    """
    return _family(name, "benjamini_yekutieli", p_values, alpha)


def _family(name: str, method: Method, p_values: Mapping[str, float | None], alpha: float) -> Family:
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1, like 0.05, but is {alpha}")
    for label, p in p_values.items():
        if p is not None and not 0 <= p <= 1:
            raise ValueError(f"p of {label!r} in the family {name!r} must be in [0, 1], but is {p}")
    size = len(p_values)
    values = np.array([1.0 if p is None else p for p in p_values.values()])
    order = np.argsort(values, kind="stable")
    rank = np.arange(1, size + 1)
    if method == "holm":
        steps = np.maximum.accumulate((size - rank + 1) * values[order])
    else:
        price = float(np.sum(1 / rank)) if method == "benjamini_yekutieli" else 1.0
        steps = np.minimum.accumulate((price * size / rank * values[order])[::-1])[::-1]
    adjusted = np.empty(size)
    adjusted[order] = np.minimum(steps, 1)
    members = {
        label: Comparison(own, None, False) if own is None else Comparison(own, float(a), bool(a <= alpha))
        for (label, own), a in zip(p_values.items(), adjusted, strict=True)
    }
    return Family(name, method, size, alpha, members)
