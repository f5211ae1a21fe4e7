"""Limits of a standard deviation, and moderated variances against known priors and least squares."""

from math import inf

import numpy as np
import pytest

from headcount.sweeps.statistics import mean_estimate, moderated_deltas, sd_limits
from headcount.sweeps.statistics.variances import sd_bias


@pytest.mark.parametrize(("n", "factors"), [(3, (0.521, 6.285)), (5, (0.599, 2.874))])
def test_sd_limits(n: int, factors: tuple[float, float]) -> None:
    assert sd_limits(1.0, n - 1) == pytest.approx(factors, abs=5e-4)
    assert sd_limits(0.002, n - 1)[1] == pytest.approx(0.002 * factors[1], rel=1e-3)


def test_sd_bias() -> None:
    assert [sd_bias(n) for n in (3, 5)] == pytest.approx([0.8862, 0.9400], abs=5e-5)
    with pytest.raises(ValueError, match="at least 2 values, but n is 1"):
        sd_bias(1)


def test_prior_of_many_cells_is_recovered() -> None:
    rng = np.random.default_rng(0)
    d0, s0, n = 6.0, 0.01, 4
    sds = s0 * np.sqrt(d0 / rng.chisquare(d0, 20_000))
    deltas = rng.normal(size=(20_000, n)) * sds[:, None]
    m = moderated_deltas(deltas, range(20_000))
    assert m.prior_df == pytest.approx(d0, rel=0.1)
    assert m.prior_sd == pytest.approx(s0, rel=0.01)
    # Smyth's formula at one cell
    own = mean_estimate(deltas[7])
    assert own.sd is not None
    assert m.prior_sd is not None
    assert m.prior_df is not None
    variance = (m.prior_df * m.prior_sd**2 + 3 * own.sd**2) / (m.prior_df + 3)
    assert m.deltas[7].se == pytest.approx((variance / n) ** 0.5)
    assert m.deltas[7].df == pytest.approx(m.prior_df + 3)
    inside = np.mean([e.low <= 0 <= e.high for e in m.deltas if e.low is not None and e.high is not None])
    assert inside == pytest.approx(0.95, abs=0.005)


def test_equal_variances_are_pooled_with_df_that_a_shared_control_limits() -> None:
    pattern = np.array([-1.0, 0.0, 1.0])
    deltas = np.arange(9.0)[:, None] + np.array([pattern, pattern[::-1], [0, 1, -1]] * 3)
    own = moderated_deltas(deltas, range(9))
    assert (own.prior_sd, own.prior_df) == (pytest.approx(1.0), inf)
    assert [e.df for e in own.deltas] == [18.0] * 9
    shared = moderated_deltas(deltas, ["additive"] * 9)
    # the patterns' mean correlation is below ½, which stands in: (9·2)² / (9·2 + ¼·72·2)
    assert [e.df for e in shared.deltas] == pytest.approx([18**2 / (18 + 36)] * 9)
    assert [e.mean for e in shared.deltas] == pytest.approx(list(range(9)))


def test_deltas_that_move_together_count_once() -> None:
    deltas = np.tile([[-0.01, 0.0, 0.01]], (10, 1))
    assert [e.df for e in moderated_deltas(deltas, ["c"] * 10).deltas] == pytest.approx([2.0] * 10)


def test_cells_without_a_variance_are_left_out_and_say_so() -> None:
    rng = np.random.default_rng(0)
    deltas = rng.normal(size=(12, 3)) * 0.01
    deltas[0] = 0.0
    deltas[1, 1:] = np.nan
    deltas[2] = np.nan
    m = moderated_deltas(deltas, range(12))
    rest = moderated_deltas(deltas[3:], range(9))
    assert m.deltas[3:] == rest.deltas
    assert [e.mean for e in m.deltas[:3]] == [0.0, deltas[1, 0], None]
    assert all(e.low is None and e.reason is not None for e in m.deltas[:3])


def test_under_eight_cells_nothing_is_moderated() -> None:
    m = moderated_deltas(np.random.default_rng(0).normal(size=(7, 3)), range(7))
    assert (m.prior_sd, m.prior_df) == (None, None)
    assert {e.reason for e in m.deltas} == {"needs 8 cells whose deltas vary, but 7 do"}
    with pytest.raises(ValueError, match="7 cells need 7 controls, but there are 1"):
        moderated_deltas(np.zeros((7, 3)), ["c"])
