"""The check of one variance: its level and power by simulation, and what it refuses to vouch for."""

import numpy as np
import pytest
from scipy.special import ndtr

from headcount.sweeps.statistics import check_homogeneity, homogeneity
from headcount.sweeps.statistics.layout import block_layout


def noise(sds: list[float], seeds: int, number: int) -> np.ndarray:
    rng = np.random.default_rng(number)
    return 3 + rng.normal(size=seeds) * 0.1 + rng.normal(size=(len(sds), seeds)) * np.array(sds)[:, None]


def test_alarm_rate_is_alpha_with_and_without_missing_seeds() -> None:
    for missing in ((), (0, 0), (2, 1)):
        verdicts = []
        for number in range(600):
            table = noise([0.01] * 6, 5, number)
            table[missing and missing[:1], missing and missing[1:]] = np.nan
            verdicts.append(check_homogeneity(table).verdict)
        assert verdicts.count("heterogeneous") / 600 == pytest.approx(0.2, abs=0.05)
        assert verdicts.count("homogeneous") / 600 == pytest.approx(0.8, abs=0.05)


def test_a_noisy_cell_is_noticed_as_often_as_power_says() -> None:
    checks = [check_homogeneity(noise([0.01] * 5 + [0.04], 5, number)) for number in range(600)]
    assert checks[0].power is not None
    assert checks[0].power > 0.8
    found = np.mean([check.verdict == "heterogeneous" for check in checks])
    assert found == pytest.approx(checks[0].power, abs=0.05)


def test_published_spreads_are_never_vouched_for_at_three_seeds() -> None:
    verdicts = {check_homogeneity(noise([0.015, 0.049, 0.002], 3, number)).verdict for number in range(100)}
    assert "homogeneous" not in verdicts
    check = check_homogeneity(noise([0.01] * 3, 3, 0))
    assert check.verdict == "undecided"
    assert check.reason is not None
    assert check.reason.startswith("would notice a cell with 4 times the spread only 1")


def test_same_table_same_answer() -> None:
    table = noise([0.01] * 6, 5, 0)
    first = check_homogeneity(table)
    homogeneity._reference.cache_clear()
    assert check_homogeneity(table) == first


def test_what_cannot_be_checked_is_undecided() -> None:
    two = check_homogeneity(noise([0.01, 0.01], 8, 0))
    assert (two.verdict, two.p) == ("undecided", None)
    equal = check_homogeneity(np.full((4, 5), 3.25))
    assert (equal.verdict, equal.reason) == ("undecided", "the losses do not vary beyond cell and seed")
    assert check_homogeneity(np.full((4, 5), np.nan)).verdict == "undecided"


def test_a_cell_without_any_error_is_noticed() -> None:
    table = noise([0.01] * 6, 5, 0)
    table[5] = table[:5].mean(axis=0) + 0.1  # no residual: parallel to the others' mean
    assert check_homogeneity(table).verdict == "heterogeneous"


def layout(cells: int, seeds: int, *missing: tuple[int, int]) -> np.ndarray:
    present = np.ones((cells, seeds), dtype=bool)
    for place in missing:
        present[place] = False
    return present


LAYOUTS = [
    layout(3, 2),
    layout(6, 5),
    layout(30, 3),
    layout(4, 3, (0, 0)),
    layout(6, 5, (0, 0), (3, 1), (3, 2)),
    layout(7, 6, *((2, seed) for seed in range(6)), *((cell, 5) for cell in range(7)), (4, 4)),
    layout(8, 4, *((cell, seed) for cell in range(8) for seed in range(4) if (cell < 5) == (seed < 2))),
]


def statistic(losses: np.ndarray, present: np.ndarray) -> np.ndarray:
    """From the residuals as they are defined; `losses` may have leading axes."""
    seen = present.any(1)
    nu = present.sum(1)[seen] - 1.0
    squares = (block_layout(present).residuals(losses) ** 2).sum(-1)[..., seen]
    return np.asarray(nu.sum() * np.log(squares.sum(-1) / nu.sum()) - (nu * np.log(squares / nu)).sum(-1))


def drawn(present: np.ndarray, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """The statistic of normal losses, and with a cell at random at 4 times the spread."""
    rng = np.random.default_rng(1)
    losses = rng.standard_normal((draws, *present.shape))
    null = statistic(losses, present)
    losses[np.arange(draws), rng.choice(np.flatnonzero(present.any(1)), draws)] *= 4
    return null, statistic(losses, present)


def apart(some: np.ndarray, others: np.ndarray) -> float:
    """The largest distance of two empirical distributions (Kolmogorov and Smirnov)."""
    both = np.concatenate((some, others))
    shares = [np.searchsorted(np.sort(x), both, side="right") / len(x) for x in (some, others)]
    return float(np.max(np.abs(shares[0] - shares[1])))


@pytest.mark.parametrize("present", LAYOUTS, ids=lambda present: f"{present.shape} {present.sum()}")
def test_the_draws_have_the_law_of_the_residuals_statistic(
    present: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(homogeneity, "_DRAWS", 20_000)
    found = homogeneity._reference.__wrapped__(present.shape, present.tobytes())
    for ours, theirs in zip(found, drawn(present, 20_000), strict=True):
        assert apart(ours, theirs) < 1.63 * (2 / 20_000) ** 0.5  # passed by 99 % of draws of one law


@pytest.mark.parametrize(
    "present", [LAYOUTS[1], LAYOUTS[4], LAYOUTS[6]], ids=lambda present: f"{present.shape} {present.sum()}"
)
def test_the_draws_statistics_are_those_of_their_residuals(
    present: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = np.random.default_rng(2).standard_normal((50, *present.shape))
    normals = losses.swapaxes(1, 2)
    function, noisy = homogeneity._unbalanced, np.random.default_rng(0).integers(len(present), size=50)
    if present.all():
        ones = np.ones((present.shape[1], 1))
        contrasts = np.linalg.svd(ones)[0][:, 1:].T  # an orthonormal basis of what sums to 0
        normals = contrasts @ normals
        function, noisy = homogeneity._balanced, np.zeros(50, dtype=int)
    monkeypatch.setattr(homogeneity, "_normals", lambda *_: np.array(normals, dtype=np.float32))
    room = np.empty((2, losses.size), dtype=np.float32)
    null, shifted = function(np.random.default_rng(0), 50, present, room)
    np.testing.assert_allclose(null, statistic(losses, present), rtol=1e-3)
    losses[np.arange(50), noisy] *= 4
    np.testing.assert_allclose(shifted, statistic(losses, present), rtol=1e-3)


def test_the_normals_are_normal_and_independent() -> None:
    room = np.empty((2, 1_000_002), dtype=np.float32)
    draws = homogeneity._normals(np.random.default_rng(0), (1_000_001,), room).astype(np.float64)
    assert len(draws) == 1_000_001
    at = np.arange(1, len(draws) + 1) / len(draws)
    assert np.max(np.abs(ndtr(np.sort(draws)) - at)) < 1.63e-3
    pairs = draws[:500_000], draws[500_001:]  # each of one radius and angle
    for power in (1, 2, 3):
        assert abs(np.corrcoef(pairs[0] ** power, pairs[1] ** power)[0, 1]) < 4 / 500_000**0.5
    assert np.mean(np.abs(draws) > 4) == pytest.approx(2 * ndtr(-4), rel=0.3)


def test_p_and_power_are_those_of_the_draws_that_the_docstring_names() -> None:
    present = layout(30, 5, (0, 0), (3, 1), (3, 2))
    table = np.where(present, noise([0.01] * 30, 5, 0), np.nan)
    check = check_homogeneity(table)
    assert check.statistic == pytest.approx(float(statistic(table, present)), rel=1e-12)
    null, shifted = homogeneity._reference.__wrapped__(present.shape, present.tobytes())
    assert check.p == (1 + np.sum(null >= check.statistic)) / 1001
    assert check.power == np.mean(shifted > np.quantile(null, 0.8))
    null, shifted = drawn(present, 20_000)
    assert check.p == pytest.approx(np.mean(null >= check.statistic), abs=0.045)
    assert check.power == pytest.approx(np.mean(shifted > np.quantile(null, 0.8)), abs=0.045)


def test_a_cell_that_shares_no_seed_is_never_vouched_for() -> None:
    """It has no residual but rounding, in the draws too."""
    for number in range(20):
        table = np.full((7, 8), np.nan)
        table[:6, :5] = noise([0.01] * 6, 5, number)
        table[6, 5:] = noise([0.01], 3, number)
        assert check_homogeneity(table).verdict != "homogeneous"
