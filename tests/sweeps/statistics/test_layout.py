"""Tables of losses from mappings."""

import numpy as np

from headcount.sweeps.statistics import loss_table
from headcount.sweeps.statistics.layout import block_layout


def test_mappings_become_one_table() -> None:
    seeds, losses = loss_table([{2: 3.2, 0: 3.0}, {}, {1: 3.1}])
    assert seeds == (0, 1, 2)
    np.testing.assert_array_equal(losses, [[3.0, np.nan, 3.2], [np.nan] * 3, [np.nan, 3.1, np.nan]])


def test_no_seeds_make_an_empty_table() -> None:
    assert loss_table([{}, {}]).losses.shape == (2, 0)


def test_residuals_of_a_stack_are_those_of_each_table() -> None:
    rng = np.random.default_rng(0)
    layout = block_layout(rng.random((5, 4)) < 0.8)
    stack = rng.normal(size=(3, 5, 4))
    np.testing.assert_allclose(layout.residuals(stack)[1], layout.residuals(stack[1]))
    np.testing.assert_allclose(layout.residuals(stack).sum(-1), 0, atol=1e-12)
    np.testing.assert_allclose(layout.residuals(stack).sum(-2), 0, atol=1e-12)


def test_cell_and_seed_effects_leave_no_residual() -> None:
    present = np.array([[1, 1, 0], [0, 1, 1], [1, 1, 1]], dtype=bool)
    losses = np.array([[1.0], [5.0], [2.0]]) + np.array([0.3, 0.1, 0.7])
    layout = block_layout(present)
    np.testing.assert_allclose(layout.residuals(losses), 0, atol=1e-12)
    np.testing.assert_allclose(np.diff(layout.effects(losses)), [4, -3])


def test_effects_and_variances_are_those_of_the_cells_equations() -> None:
    """Against numpy's pseudo-inverse of C itself, over layouts with gaps, lone cells and apart groups."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        present = rng.random((rng.integers(1, 9), rng.integers(1, 6))) < rng.choice([0.2, 0.5, 0.9, 1.0])
        incidence = present.astype(float)
        shared = incidence / np.maximum(incidence.sum(0), 1)
        information = np.diag(incidence.sum(1)) - shared @ incidence.T
        inverse = np.linalg.pinv(information, rcond=1e-10, hermitian=True)
        layout = block_layout(present)
        losses = np.where(present, rng.normal(size=(2, *present.shape)), np.nan)
        y = np.where(present, losses, 0.0)
        left = y.sum(-1) - y.sum(-2) @ shared.T
        np.testing.assert_allclose(layout.effects(losses), left @ inverse, atol=1e-13)
        for one, other in zip(*np.nonzero(layout.group[:, None] == layout.group), strict=True):
            if one != other:
                expected = inverse[one, one] + inverse[other, other] - 2 * inverse[one, other]
                assert abs(layout.variance(one, other) - expected) < 1e-13
