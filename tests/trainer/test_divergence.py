import math

import pytest

from headcount.trainer.config import job_from_fields
from headcount.trainer.divergence import DivergenceWatch
from headcount.trainer.events import Spike

TRAIN = job_from_fields({"train.steps": 400, "train.warmup_steps": 100}).train


def first_divergence(losses: list[float], watch: DivergenceWatch | None = None) -> int | None:
    watch = watch or DivergenceWatch(TRAIN)
    return next((step for step, loss in enumerate(losses) if watch.diverges(step, loss)), None)


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite(loss: float) -> None:
    assert first_divergence([5.0, 4.0, loss]) == 2


def test_falling_and_noisy_losses_do_not_diverge() -> None:
    assert first_divergence([5 / (1 + step / 50) + 0.3 * (step % 2) for step in range(400)]) is None


def test_a_smoothed_loss_that_stays_above_its_best_for_a_twentieth_of_the_steps() -> None:
    """After k losses of 4 the smoothed loss is 4 − 2·0.95^k, above 2.6 from k = 7 on."""
    losses = [2.0] * 150 + [4.0] * 250
    assert first_divergence(losses) == 150 + 7 + 20 - 2


def test_a_text_learned_by_heart_does_not_diverge() -> None:
    assert first_divergence([0.001] * 150 + [0.05, 0.002] * 125) is None
    assert first_divergence([0.01] * 150 + [0.2] * 250) == 150 + 15 + 20 - 2, "0.2 − 0.19·0.95^k, above 0.11"


def test_a_spike_that_recovers_is_no_divergence_but_is_told() -> None:
    """Ten losses of 4 lift the smoothed loss to 4 − 2·0.95¹⁰ = 2.80, above 2.6 from the seventh on; it comes
    down to 2 + 0.80·0.95^k, below 2.6 from k = 6 on."""
    watch = DivergenceWatch(TRAIN)
    assert first_divergence([2.0] * 150 + [4.0] * 10 + [2.0] * 240, watch) is None
    assert watch.spikes == [Spike(156, 9, pytest.approx((4 - 2 * 0.95**10) / 2))]


def test_a_spike_may_lie_across_a_restart() -> None:
    losses = [2.0] * 150 + [4.0] * 10 + [2.0] * 240
    whole, first, second = (DivergenceWatch(TRAIN) for _ in range(3))
    first_divergence(losses, whole)
    first_divergence(losses[:161], first)
    second.restore(first.state())
    assert not any(second.diverges(step, losses[step]) for step in range(161, 400))
    assert (first.spikes, second.spikes) == ([], whole.spikes)


def test_warmup_does_not_count() -> None:
    losses = [2.0] * 10 + [4.0] * 390
    assert first_divergence(losses) == 100 + 20 - 1


def test_a_restored_watch_goes_on() -> None:
    losses = [2.0] * 150 + [4.0] * 250
    first = DivergenceWatch(TRAIN)
    assert first_divergence(losses[:160], first) is None
    second = DivergenceWatch(TRAIN)
    second.restore(first.state())
    expected = first_divergence(losses)
    assert expected is not None
    assert next(s for s in range(160, 400) if second.diverges(s, losses[s])) == expected
