import pytest

from headcount.trainer.config import job_from_fields
from headcount.trainer.execution import batch_windows, micro_batch_rule


@pytest.mark.parametrize(
    ("fields", "windows"),
    [
        ({"model.scale": "nano"}, 8),
        ({"model.scale": "100m"}, 8),
        ({"model.scale": "350m"}, 16),
        ({"model.scale": "100m", "model.vocab_size": 151_936}, 2),  # 2³⁰ logits are 3 windows; 2 divides 64
        ({"data.context": 128, "train.batch_tokens": 128 * 7}, 7),
        ({"data.context": 65_536, "train.batch_tokens": 65_536 * 3}, 1),
    ],
)
def test_micro_batch_rule(fields: dict[str, object], windows: int) -> None:
    config = job_from_fields(fields)
    assert micro_batch_rule(config) == windows
    assert batch_windows(config) % windows == 0


def test_treatment_and_control_share_one_micro_batch() -> None:
    shape = {"model.scale": "1b", "model.vocab_size": 50_304}
    control = micro_batch_rule(job_from_fields(shape))
    assert micro_batch_rule(job_from_fields({**shape, "model.residual": "mhar"})) == control
