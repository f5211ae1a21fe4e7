import pytest

from headcount.trainer.config import TrainConfig, job_from_fields
from headcount.trainer.schedule import learning_rate


def recipe(**fields: object) -> TrainConfig:
    """100 updates, the first 20 of them warm-up, to a peak of 1."""
    given = {"steps": 100, "warmup_steps": 20, "peak_lr": 1.0, "eval_every": 5, **fields}
    return job_from_fields({f"train.{name}": value for name, value in given.items()}).train


def rates(train: TrainConfig) -> list[float]:
    return [learning_rate(train, step) for step in range(train.steps)]


def test_the_published_schedule() -> None:
    train = job_from_fields({"model.scale": "100m"}).train
    told = [learning_rate(train, step) for step in (0, 999, 10_499, 19_999)]
    assert told == pytest.approx([1e-6, 1e-3, 5.5e-4, 1e-4], rel=1e-12)


@pytest.mark.parametrize("schedule", ["cosine", "linear", "wsd", "one_minus_sqrt", "constant"])
def test_the_warmup_is_a_straight_line_to_the_peak(schedule: str) -> None:
    warmup = rates(recipe(schedule=schedule))[:20]
    assert warmup == pytest.approx([(n + 1) / 20 for n in range(20)], rel=1e-12)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("cosine", {39: 0.1 + 0.9 * 0.5 * (1 + 2**-0.5), 59: 0.55, 99: 0.1}),
        ("linear", {39: 0.775, 59: 0.55, 99: 0.1}),
        ("wsd", {39: 1.0, 79: 1.0, 80: 1 - 0.9 / 20, 89: 0.55, 99: 0.1}),
        ("one_minus_sqrt", {79: 1.0, 80: 1 - 0.9 * 20**-0.5, 84: 0.55, 99: 0.1}),
        ("constant", {39: 1.0, 59: 1.0, 99: 1.0}),
    ],
)
def test_the_rates_of_each_schedule(schedule: str, expected: dict[int, float]) -> None:
    told = rates(recipe(schedule=schedule))
    assert {step: told[step] for step in expected} == pytest.approx(expected, rel=1e-12)
    assert told[20:] == sorted(told[20:], reverse=True)


def test_the_last_part_of_wsd_is_as_long_as_stated() -> None:
    told = rates(recipe(schedule="wsd", decay_fraction=0.5, min_lr_ratio=0))
    assert told[49] == 1
    assert told[50:] == pytest.approx([1 - (n + 1) / 50 for n in range(50)], abs=1e-12)


def test_without_warmup_the_cosine_begins_at_once() -> None:
    told = rates(recipe(warmup_steps=0))
    assert told[0] == pytest.approx(1.0, abs=1e-3)
    assert told[-1] == pytest.approx(0.1)
    assert told == sorted(told, reverse=True)
