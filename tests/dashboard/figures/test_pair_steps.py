import numpy as np
import pytest

from headcount.dashboard.figures.pair_steps import (
    MOST_POINTS,
    StepLine,
    noise_line,
    pair_line,
    pair_steps_figure,
    pair_steps_summary,
    pair_steps_table,
)

CONTROL = np.array([5.0, 4.0, 4.5, 3.0], np.float32)


def test_the_distance_is_taken_on_the_same_batch() -> None:
    treatment = np.array([5.0, 4.25, 4.0], np.float32)
    assert pair_line("H 8", treatment, CONTROL) == StepLine("H 8", False, [1, 2, 3], [0.0, 0.25, 0.5])


def test_the_noise_is_from_one_batch_to_the_next() -> None:
    assert noise_line("control", CONTROL) == StepLine("control", True, [1, 2, 3], [1.0, 0.5, 1.5])


def test_many_updates_are_means_of_neighbours() -> None:
    control = np.zeros(3 * MOST_POINTS, np.float32)
    line = pair_line("H 8", np.tile(np.array([1, 2, 3], np.float32), MOST_POINTS), control)
    assert line.steps[:2] == [2, 5]
    assert line.distances == [2.0] * MOST_POINTS


def test_what_was_not_finite_is_a_gap() -> None:
    assert pair_line("H 8", np.array([np.nan, 4.0], np.float32), CONTROL).distances == [None, 0.0]


def test_the_figure_and_its_words() -> None:
    lines = [StepLine("H 8", False, [1, 2, 3], [0.4, 0.2, 0.1]), StepLine("noise", True, [1, 2], [1.0, 2.0])]
    pair, noise = pair_steps_figure(lines, 0.5)["data"]
    assert pair["y"] == pytest.approx([0.4, (0.4 + 2 * 0.2) / 3, (0.4 + 2 * 0.2 + 4 * 0.1) / 7])
    assert (pair["line"]["dash"], noise["line"]["dash"]) == ("solid", "dot")
    assert pair_steps_table(lines[:1]).rows == [["H 8", "0.4000", "0.2000", "0.1000"]]
    assert pair_steps_summary(lines[:1]).endswith("H 8: 0.1000.")
    assert pair_steps_figure([], 0.0)["layout"]["annotations"][0]["text"].startswith("No result yet<br>")
