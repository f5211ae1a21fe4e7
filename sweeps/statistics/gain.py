"""What a lower loss is worth in compute, by a scaling law that has to be assumed."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ComputeGain:
    """How many times the compute the control would need for the treatment's loss.

    By L = E + (K / compute)^α: the gain is [(L₀ − E) / (L₁ − E)]^(1/α). `low` and `high` come from the
    delta's interval alone; `exponent` α and `irreducible` E are taken as known, and are not.
    """

    gain: float
    low: float | None
    high: float | None
    exponent: float
    irreducible: float


def compute_gain(
    control: float,
    delta: float,
    *,
    exponent: float,
    irreducible: float,
    low: float | None = None,
    high: float | None = None,
) -> ComputeGain:
    """The gain of a control's loss and a delta to it, with the delta's interval [low, high] if it has one.

    Infinite where no number holds it. ValueError unless 0 < exponent and both losses lie above `irreducible`.
    """
    if not exponent > 0 or min(control, control + delta) <= irreducible:
        raise ValueError(
            f"a compute gain needs losses above E = {irreducible:g} and an exponent above 0, but the losses "
            f"are {control:g} and {control + delta:g}, the exponent {exponent:g}"
        )

    def gain(change: float | None) -> float | None:
        if change is None or control + change <= irreducible:
            return None
        try:
            return float(((control - irreducible) / (control + change - irreducible)) ** (1 / exponent))
        except OverflowError:
            return float("inf")

    value = gain(delta)
    assert value is not None
    return ComputeGain(value, gain(high), gain(low), exponent, irreducible)
