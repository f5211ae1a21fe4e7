"""Treatment minus control: paired by seed, or by Welch where the seeds differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, isfinite, sqrt
from operator import mul

from .student import (
    Estimate,
    MeanEstimate,
    Values,
    check_confidence,
    mean_estimate,
    mean_fields,
    t_estimate,
    unknown,
)


@dataclass(frozen=True, kw_only=True)
class PairedDelta(MeanEstimate):
    """Treatment minus control at the seeds that both have (negative is better), with its paired t interval.

    `deltas` are in the order of `seeds`. `correlation` is that of treatment and control over the seeds:
    pairing helps only where it is positive, Var(delta) = 2σ²(1 − ρ). It is None under 3 pairs (two points
    always correlate fully) and where either side does not vary.
    """

    deltas: tuple[float, ...]
    seeds: tuple[int, ...]
    without_treatment: tuple[int, ...]
    without_control: tuple[int, ...]
    correlation: float | None

    @property
    def effect_size(self) -> float | None:
        """d_z: the mean delta in standard deviations of the deltas."""
        return self.mean / self.sd if self.mean is not None and self.sd else None


def paired_delta(
    treatment: Mapping[int, float], control: Mapping[int, float], *, confidence: float = 0.95
) -> PairedDelta:
    """The delta of two cells, each a mapping from seed to loss.

    Seeds that only one side has are listed and not used; without a common seed the mean is None. See
    `mean_estimate` for one pair and for deltas that do not vary. ValueError for a loss that is not finite.
    """
    check_confidence(confidence)
    for name, losses in (("treatment", treatment), ("control", control)):
        if not all(map(isfinite, losses.values())):
            seed, loss = next((s, x) for s, x in losses.items() if not isfinite(x))
            raise ValueError(f"{name} at seed {seed} is {loss}: leave diverged seeds out, and count them")
    seeds = tuple(sorted(treatment.keys() & control.keys()))
    t, c = [float(treatment[s]) for s in seeds], [float(control[s]) for s in seeds]
    deltas = [a - b for a, b in zip(t, c, strict=True)]
    fields = mean_fields(deltas, confidence, max(map(abs, [*t, *c]), default=0.0))
    if not seeds:
        fields["reason"] = "no seed has both a treatment and a control"
    return PairedDelta(
        **fields,
        deltas=tuple(deltas),
        seeds=seeds,
        without_treatment=tuple(sorted(control.keys() - treatment.keys())),
        without_control=tuple(sorted(treatment.keys() - control.keys())),
        correlation=_correlation(t, c),
    )


def _correlation(t: Sequence[float], c: Sequence[float]) -> float | None:
    if len(t) < 3 or min(t) == max(t) or min(c) == max(c):
        return None
    mean_t, mean_c = fsum(t) / len(t), fsum(c) / len(c)
    t, c = [x - mean_t for x in t], [x - mean_c for x in c]
    return fsum(map(mul, t, c)) / sqrt(fsum(map(mul, t, t)) * fsum(map(mul, c, c)))


@dataclass(frozen=True, kw_only=True)
class UnpairedDelta(Estimate):
    """Difference of two means whose seeds are not shared (Welch's t, Satterthwaite's degrees of freedom)."""

    n_treatment: int
    n_control: int


def welch_delta(treatment: Values, control: Values, *, confidence: float = 0.95) -> UnpairedDelta:
    """Mean treatment minus mean control, for cells without common seeds.

    With common seeds use `paired_delta`: it drops what the two share. Under 2 values on a side, or where
    neither varies, there is no interval and no p.
    """
    t = mean_estimate(treatment, confidence=confidence)
    c = mean_estimate(control, confidence=confidence)
    return UnpairedDelta(**vars(_welch(t, c, confidence)), n_treatment=t.n, n_control=c.n)


def _welch(t: MeanEstimate, c: MeanEstimate, confidence: float) -> Estimate:
    if t.mean is None or c.mean is None:
        return unknown(None, "one side has no value", confidence)
    mean = t.mean - c.mean
    if t.se is None or c.se is None:
        return unknown(mean, "both sides need 2 values", confidence)
    variance = t.se**2 + c.se**2
    if variance == 0:
        return unknown(mean, "neither side varies", confidence)
    df = variance**2 / (t.se**4 / (t.n - 1) + c.se**4 / (c.n - 1))
    return t_estimate(mean, variance**0.5, df, confidence)
