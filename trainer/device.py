"""The device a job runs on: chosen, described, its memory measured."""

import json
import platform
import resource
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from headcount import __version__
from headcount.kernels import Choice
from headcount.trainer.config import JobConfig
from headcount.trainer.errors import UserError
from headcount.trainer.execution import Execution


def choose_device(config: JobConfig, execution: Execution) -> torch.device:
    """Raises `UserError` where the machine lacks the devices or the device lacks the job's precision."""
    available = torch.cuda.is_available()
    if execution.gpus > 1 and execution.device != "cpu" and execution.gpus > torch.cuda.device_count():
        raise UserError(
            f"{execution.gpus} GPUs were asked for, but PyTorch finds {torch.cuda.device_count() or 'none'}"
        )
    if execution.device == "cuda" and not available:
        raise UserError("device cuda was asked for, but PyTorch finds no GPU; use auto or cpu")
    if execution.device == "cpu" or not available:
        return torch.device("cpu")
    if config.train.precision == "bf16" and not torch.cuda.is_bf16_supported(including_emulation=False):
        raise UserError(f"{torch.cuda.get_device_name()} does not compute in bf16; set train.precision: fp32")
    return torch.device("cuda", torch.cuda.current_device())


def describe(
    device: torch.device, execution: Execution, micro_batch: int, routing: Choice | None
) -> dict[str, Any]:
    """What may change bits or speed without changing the job: plain values by name."""
    on_gpu = device.type == "cuda"
    return {
        "hardware": torch.cuda.get_device_name(device) if on_gpu else _processor(),
        "device": device.type,
        "instructions": None if on_gpu else torch.backends.cpu.get_cpu_capability(),
        "threads": execution.threads,
        "micro_batch": micro_batch,
        **({"gpus": execution.gpus} if execution.gpus > 1 else {}),
        "routing": routing.implementation if routing else None,
        "routing_launch": json.dumps(routing.launch) if routing and routing.launch else None,
        "exact": execution.exact,
        "headcount": __version__,
        "torch": str(torch.__version__),  # its own class would be read by PyTorch alone
        "cuda": torch.version.cuda if on_gpu else None,
        "python": platform.python_version(),
    }


def card_memory(device: torch.device) -> float | None:
    """Bytes of the card, used or not; none on the CPU."""
    return float(torch.cuda.get_device_properties(device).total_memory) if device.type == "cuda" else None


def reset_peak_memory(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with suppress(OSError):  # where it cannot be reset, the peak is that of the process so far
            _CLEAR.write_text("5")  # proc(5): resets the peak resident set


def peak_memory_bytes(device: torch.device) -> float:
    """Since the reset: of the GPU's allocator, or the resident set of the whole process on the CPU."""
    if device.type == "cuda":
        return float(torch.cuda.max_memory_allocated(device))
    if _STATUS.exists():
        status = _STATUS.read_text(encoding="utf-8")
        return float(status.partition("VmHWM:")[2].split()[0]) * 1024
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(kilobytes) * (1 if platform.system() == "Darwin" else 1024)


_CLEAR, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
