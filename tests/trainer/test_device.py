import pytest
import torch

from headcount.kernels import Choice
from headcount.trainer.config import job_from_fields
from headcount.trainer.device import choose_device, describe, peak_memory_bytes, reset_peak_memory
from headcount.trainer.errors import UserError
from headcount.trainer.execution import Execution

CPU = torch.device("cpu")


def test_peak_memory_is_of_the_time_since_the_reset() -> None:
    block = torch.ones(50_000_000)  # 200 MB
    reset_peak_memory(CPU)
    with_block = peak_memory_bytes(CPU)
    del block
    reset_peak_memory(CPU)
    without = peak_memory_bytes(CPU)
    assert with_block - without > 150e6
    torch.ones(50_000_000)
    assert peak_memory_bytes(CPU) - without > 150e6


def test_the_environment_is_plain_data() -> None:
    routing = Choice("two_phase", "fewest bytes", {"chunk": 16, "tma": True})
    environment = describe(CPU, Execution(), micro_batch=8, routing=routing)
    assert environment["routing"] == "two_phase"
    assert environment["routing_launch"] == '{"chunk": 16, "tma": true}'
    assert (environment["device"], environment["threads"], environment["micro_batch"]) == ("cpu", 1, 8)
    assert environment["torch"] == torch.__version__
    assert all(isinstance(value, str | int | bool | None) for value in environment.values())


def test_auto_is_the_gpu_where_there_is_one() -> None:
    device = choose_device(job_from_fields({}), Execution())
    assert device.type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there() -> None:
    with pytest.raises(
        UserError, match="device cuda was asked for, but PyTorch finds no GPU; use auto or cpu"
    ):
        choose_device(job_from_fields({}), Execution(device="cuda"))
