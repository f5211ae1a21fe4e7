"""The misfit of a sum of powers and its derivatives, against differences."""

import numpy as np
import pytest

from headcount.sweeps.statistics.log_sums import HUBER_DELTA, LogSum


@pytest.fixture
def law() -> LogSum:
    """E + A / N^α + B / D^β at four settings, with two runs of the first."""
    log_n, log_d = np.array([-1.0, 0.5, 0.5, 1.5]), np.array([0.3, -1.0, 1.0, 0.2])
    one = np.ones(4)
    return LogSum(
        (0, 1, 2, 1, 2), np.stack([one, one, one, -log_n, -log_d]), np.array([0, 0, 1, 2, 3], dtype=np.intp)
    )


PARAMETERS = np.array([[0.5, -0.7, -0.4, 0.34, 0.28], [0.2, -1.0, 0.1, 0.5, 0.1]])
LOSSES = np.log([[2.9, 2.91, 2.7, 2.6, 2.5], [3.3, 3.2, 3.0, 2.9, 2.7]])


def test_the_misfit_is_the_mean_huber_loss_of_the_logarithms(law: LogSum) -> None:
    e, a, b, alpha, beta = PARAMETERS[0]
    predicted = np.exp(e) + np.exp(a + alpha * law.factors[3]) + np.exp(b + beta * law.factors[4])
    losses = np.log(predicted)[law.setting] + HUBER_DELTA * np.array([0.5, -0.5, 3.0, -2.0, 0.0])
    expected = np.mean([0.125, 0.125, 2.5, 1.5, 0.0])
    found = law.misfit(PARAMETERS[:1], losses[None])
    assert found.value == pytest.approx([expected], rel=1e-9)
    assert (found.stiffness * HUBER_DELTA**2 * 5).round(9).tolist() == [[2.0, 0.0, 0.0, 1.0]]
    assert found.shares.sum(axis=1) == pytest.approx(np.ones((1, 4)))


@pytest.mark.parametrize("wide", [False, True], ids=["within the delta", "beyond it"])
def test_gradient_and_second_derivatives_are_those_of_the_misfit(law: LogSum, wide: bool) -> None:
    near = np.log(np.exp(law.exponents(PARAMETERS)).sum(axis=1))[:, law.setting]
    losses = LOSSES if wide else near + 0.3 * HUBER_DELTA * np.array([1, -1, 1, 1, -1])
    found = law.misfit(PARAMETERS, losses)
    slopes = law.slopes(found)
    gradient, hessian = law.gradient(found, slopes), law.hessian(found, slopes)
    step = 1e-6
    for parameter in range(5):
        moved = [law.misfit(PARAMETERS + sign * step * np.eye(5)[parameter], losses) for sign in (1, -1)]
        by_value = (moved[0].value - moved[1].value) / (2 * step)
        assert gradient[:, parameter] == pytest.approx(by_value, rel=1e-5, abs=1e-4)
        up, down = (law.gradient(one, law.slopes(one)) for one in moved)
        assert hessian[:, parameter] == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=1e-2)


def test_the_bend_is_the_second_derivative_along_a_step(law: LogSum) -> None:
    direction = np.array([[0.3, -0.2, 0.5, 0.1, -0.4]] * 2)
    far = 1e-4
    before, at, after = (
        np.log(np.exp(law.exponents(PARAMETERS + far * sign * direction)).sum(axis=1)) for sign in (-1, 0, 1)
    )
    found = law.misfit(PARAMETERS, LOSSES)
    assert law.bend(found, direction) == pytest.approx((before - 2 * at + after) / far**2, rel=1e-4, abs=1e-6)
