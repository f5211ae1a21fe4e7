import math

import pytest
import torch

from headcount.trainer.config import job_from_fields
from headcount.trainer.flops import flops_per_token, peak_flops
from headcount.trainer.speed import Speed, bits_per_byte, utilisation


def test_the_first_update_is_apart() -> None:
    speed = Speed()
    assert speed.is_unknown
    speed.add(100, 20.0, since_start=25.0)
    assert speed.tokens_per_second is None
    assert speed.recent() == 5.0
    speed.add(300, 1.0, since_start=30.0)
    speed.add(100, 3.0, since_start=40.0)
    assert speed.recent() == 100.0
    assert speed.measurements(50) == {
        "tokens_per_second": 100.0,
        "step_seconds": 0.5,
        "first_update_seconds": 25.0,
    }


def test_utilisation_is_of_the_dense_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    config = job_from_fields({"model.scale": "100m"})
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H200")
    share = utilisation(config, 1e5, torch.device("cuda", 0))
    assert share == pytest.approx(flops_per_token(config) * 1e5 / 989e12)
    assert utilisation(config, None, torch.device("cuda", 0)) is None
    assert utilisation(config, 1e5, torch.device("cpu")) is None


def test_peaks_by_name() -> None:
    names = ("NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA H100 PCIe", "NVIDIA A100-SXM4-80GB", "Tesla T4")
    assert [peak_flops(name) for name in names] == [989e12, 989e12, 756e12, 312e12, None]


def test_bits_per_byte() -> None:
    assert bits_per_byte(math.log(2) * 8, 4.0) == pytest.approx(2.0)
    assert bits_per_byte(None, 4.0) is None
    assert bits_per_byte(3.0, None) is None
