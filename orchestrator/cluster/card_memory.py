"""What is on this machine's cards, by NVIDIA's management library; nothing where that is not there.

https://docs.nvidia.com/deploy/nvml-api: read without making a CUDA context, which would itself take memory.
"""

import ctypes
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

GiB = 2**30

SMALL = 0.1
"""Strangers that hold less of a card are let be: a desktop's windows, a driver's own."""

_MOST_PROCESSES = 64


@dataclass(frozen=True)
class CardUse:
    """One card's memory, in bytes, and the processes that compute on it."""

    index: int
    memory: int
    used: int
    processes: tuple[tuple[int, int, str], ...] = ()
    """Process id, bytes and name."""


@dataclass(frozen=True)
class Strangers:
    """Memory of a card that is held by others than our slots."""

    share: float
    words: str


def strangers(card: CardUse, ours: Collection[int]) -> Strangers | None:
    """Who else holds a notable part of a card; `ours` are the processes of our slots on it.

    Where none of ours is among the processes, though some are there, they are numbered as in another process
    namespace, and nothing can be told.
    """
    theirs = [process for process in card.processes if process[0] not in ours]
    held = sum(size for _, size, _ in theirs)
    if not ours:
        held = max(held, card.used)
    elif len(theirs) == len(card.processes):
        return None
    if card.memory <= 0 or held < SMALL * card.memory:
        return None
    named = ", ".join(f"{name or 'process'} {pid} with {size / GiB:.1f} GiB" for pid, size, name in theirs)
    named = named or "a process not seen from here"
    words = f"{held / GiB:.1f} of {card.memory / GiB:.1f} GiB are held by {named}"
    return Strangers(min(1.0, held / card.memory), words)


class _Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class _Process(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


def visible_cards(names: str) -> tuple[int, ...]:
    """The numbers of the cards that CUDA_VISIBLE_DEVICES names, in its order; none where it has others."""
    words = [word.strip() for word in names.split(",")]
    return tuple(int(word) for word in words) if all(word.isdigit() for word in words) else ()


def read_cards() -> list[CardUse]:
    """This machine's cards, in the driver's order."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return []
    if library.nvmlInit_v2() != 0:
        return []
    try:
        count = ctypes.c_uint()
        library.nvmlDeviceGetCount_v2(ctypes.byref(count))
        return [card for index in range(count.value) if (card := _read_card(library, index))]
    finally:
        library.nvmlShutdown()


def _read_card(library: ctypes.CDLL, index: int) -> CardUse | None:
    device, memory = ctypes.c_void_p(), _Memory()
    if library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) != 0:
        return None
    if library.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)) != 0:
        return None
    found, count = (_Process * _MOST_PROCESSES)(), ctypes.c_uint(_MOST_PROCESSES)
    listed = library.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), found) == 0
    unknown = 2**64 - 1
    processes = tuple(
        (process.pid, 0 if process.used == unknown else process.used, _name(process.pid))
        for process in found[: count.value if listed else 0]
    )
    return CardUse(index, memory.total, memory.used, processes)


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
