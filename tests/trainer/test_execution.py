import pytest

from headcount.trainer.config import job_from_fields
from headcount.trainer.execution import batch_windows, micro_batch_rule


@pytest.mark.parametrize(
    ("fields", "windows"),
    [
        ({"model.scale": "nano"}, 8),
        ({"model.scale": "100m"}, 8),
        ({"model.scale": "350m"}, 16),
        ({"model.scale": "100m", "model.vocab_size": 151_936}, 8),
        ({"data.context": 128, "train.batch_tokens": 128 * 7}, 7),
        ({"data.context": 65_536, "train.batch_tokens": 65_536 * 3}, 1),
    ],
)
def test_micro_batch_rule(fields: dict[str, object], windows: int) -> None:
    config = job_from_fields(fields)
    assert micro_batch_rule(config) == windows
    assert batch_windows(config) % windows == 0


@pytest.mark.parametrize(
    ("scale", "card_bytes", "windows"),
    [
        ("100m", 150.7e9, 8),  # an H200
        ("100m", 25.4e9, 8),
        ("100m", 8.6e9, 4),
        ("350m", 85.5e9, 16),
        ("350m", 25.4e9, 4),
        ("1b", 150.7e9, 16),
        ("1b", 85.5e9, 8),
        ("1b", 85.0e9, 8),  # the same card, as another driver reports it
        ("1b", 42.5e9, 4),
        ("1b", 16.9e9, 1),  # does not fit: one window is the least there is
    ],
)
def test_small_cards_take_small_passes(scale: str, card_bytes: float, windows: int) -> None:
    config = job_from_fields({"model.scale": scale, "model.vocab_size": 151_936})
    assert micro_batch_rule(config, card_bytes) == windows


@pytest.mark.parametrize("card_bytes", [None, 42.5e9])
def test_treatment_and_control_share_one_micro_batch(card_bytes: float | None) -> None:
    shape = {"model.scale": "1b", "model.vocab_size": 50_304}
    control = micro_batch_rule(job_from_fields(shape), card_bytes)
    for residual in ("mhar", "xhc", "muddformer"):
        treatment = job_from_fields({**shape, "model.residual": residual})
        assert micro_batch_rule(treatment, card_bytes) == control
