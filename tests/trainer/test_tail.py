import pytest

from headcount.trainer.tail import (
    FEWEST,
    evaluation_count,
    is_evaluated,
    sized_tail_start,
    tail_mean,
    tail_size,
    tail_start,
)


def evaluated(steps: int, eval_every: int) -> list[int]:
    return [step for step in range(steps + 1) if is_evaluated(step, steps, eval_every)]


def test_the_published_recipe_has_41_evaluations_and_a_tail_of_11() -> None:
    assert evaluation_count(20_000, 500) == len(evaluated(20_000, 500)) == 41
    assert tail_start(20_000) == 15_000
    assert tail_size(20_000, 500) == 11


def test_the_first_and_the_last_step_are_always_evaluated() -> None:
    assert evaluated(10, 4) == [0, 4, 8, 10]
    assert evaluated(10, 100) == [0, 10]


def test_counts_are_those_of_the_steps() -> None:
    for steps in range(1, 60):
        for eval_every in range(1, 65):
            told = evaluated(steps, eval_every)
            assert evaluation_count(steps, eval_every) == len(told)
            assert tail_size(steps, eval_every) == sum(step >= 0.75 * steps for step in told)


def test_an_eighth_of_the_steps_always_leaves_a_tail() -> None:
    for steps in range(8, 400):
        assert all(tail_size(steps, n) >= FEWEST for n in range(1, steps // 8 + 1))


def test_both_ends_of_the_tail_count() -> None:
    evaluations = [(step, float(step)) for step in range(0, 21, 5)]
    assert tail_mean(evaluations, 20) == 17.5
    assert tail_mean(evaluations, 21) == 20.0
    assert tail_start(21) == 16


def test_the_mean_does_not_depend_on_order() -> None:
    evaluations = [(3, 0.1), (4, 0.2), (4, 0.3), (0, 9.0)]
    assert tail_mean(evaluations, 4) == tail_mean(evaluations[::-1], 4) == pytest.approx(0.2, abs=1e-15)


@pytest.mark.parametrize(("steps", "eval_every"), [(40, 5), (41, 5), (40, 7), (9, 1)])
def test_a_sized_tail_starts_at_its_first_evaluation(steps: int, eval_every: int) -> None:
    found = evaluated(steps, eval_every)
    for size in range(1, len(found) + 1):
        assert sized_tail_start(size, steps, eval_every) == found[-size]
        pairs = [(step, float(step)) for step in found]
        assert tail_mean(pairs, steps, size) == pytest.approx(sum(found[-size:]) / size)
    assert sized_tail_start(len(found) + 1, steps, eval_every) < 0
