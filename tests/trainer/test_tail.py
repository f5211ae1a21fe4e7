import pytest

from headcount.trainer.tail import FEWEST, evaluation_steps, tail_mean, tail_size, tail_start


def test_evaluations_of_the_published_recipe() -> None:
    steps = evaluation_steps(20_000, 500)
    assert (steps[0], steps[1], steps[-1], len(steps)) == (0, 500, 20_000, 41)
    assert tail_start(20_000) == 15_000
    assert tail_size(20_000, 500) == 11


def test_the_last_step_is_always_evaluated() -> None:
    assert evaluation_steps(10, 4) == [0, 4, 8, 10]
    assert evaluation_steps(10, 100) == [0, 10]


def test_both_ends_of_the_tail_count() -> None:
    evaluations = [(step, float(step)) for step in range(0, 21, 5)]
    assert tail_mean(evaluations, 20) == 17.5
    assert tail_mean(evaluations, 21) == 20.0
    assert tail_start(21) == 16


def test_the_mean_does_not_depend_on_order() -> None:
    evaluations = [(3, 0.1), (4, 0.2), (4, 0.3), (0, 9.0)]
    assert tail_mean(evaluations, 4) == tail_mean(evaluations[::-1], 4) == pytest.approx(0.2, abs=1e-15)


@pytest.mark.parametrize("steps", range(8, 400))
def test_an_eighth_of_the_steps_always_leaves_three(steps: int) -> None:
    assert all(tail_size(steps, n) >= FEWEST for n in range(1, steps // 8 + 1))
