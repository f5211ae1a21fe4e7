"""Finer values of an axis: the same for every method, in rounds that depend on losses alone."""

import math

import pytest

from headcount.sweeps.planning.refining import most_refined, refined_values

GRID = (1e-4, 1e-3, 1e-2)


def bowl(best: float, values: tuple[float, ...]) -> dict[float, float]:
    return {value: 3 + math.log10(value / best) ** 2 for value in values}


def test_a_method_asks_for_the_midpoints_beside_its_best_and_all_methods_get_them() -> None:
    inner, edge = bowl(1e-3, GRID), bowl(1e-2, GRID)
    assert refined_values([inner], GRID) == (0.0003162, 0.003162)
    assert refined_values([edge], GRID) == (0.003162,)
    assert refined_values([inner, edge], GRID) == (0.0003162, 0.003162)


def test_a_round_begins_when_every_method_has_every_result_of_the_one_before() -> None:
    assert refined_values([bowl(1e-3, GRID), bowl(1e-3, GRID[:2])], GRID) == ()
    first = (0.0003162, 0.003162)
    partly = [bowl(1e-3, (*GRID, *first)), bowl(1e-3, (*GRID, first[0]))]
    assert refined_values(partly, GRID) == first


def test_the_second_round_is_the_last() -> None:
    values = GRID
    for _ in range(3):
        values = tuple(sorted({*GRID, *refined_values([bowl(1e-3, values)], GRID)}))
    assert values == (1e-4, 0.0003162, 0.0005623, 1e-3, 0.001778, 0.003162, 1e-2)


def test_a_method_that_always_diverged_asks_for_nothing() -> None:
    lost = dict.fromkeys(GRID, math.inf)
    assert refined_values([lost], GRID) == ()
    assert refined_values([lost, bowl(1e-2, GRID)], GRID) == (0.003162,)
    one = {**lost, 1e-4: 3.0}
    assert refined_values([one], GRID) == (0.0003162,)


@pytest.mark.parametrize("count", [3, 5, 8])
def test_no_more_than_announced_are_asked_for_whatever_the_losses(count: int) -> None:
    grid = tuple(10.0**-place for place in range(count))
    for _ in range(2):
        values = grid
        for _ in range(2):
            # as many methods as values, each with another best
            methods = [bowl(best, values) for best in values]
            values = tuple(sorted({*grid, *refined_values(methods, grid)}))
        assert len(values) - count == most_refined(count)
