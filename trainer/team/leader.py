"""Several processes for one job, one a GPU: each takes an equal part of every update's windows, and their
gradients are added up before the update, so that all have the same weights throughout.

The process that was asked for the job leads. It alone evaluates, writes and tells; the others
(`trainer.team.member`) are its children, do what it says through their standard input, and end with it.
"""

import pickle
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from headcount.trainer.config import JobConfig
from headcount.trainer.data import Dataset, Manifest
from headcount.trainer.errors import UserError
from headcount.trainer.execution import Execution, batch_windows

LOOPBACK = "127.0.0.1"

PATIENCE = timedelta(minutes=10)
"""How long processes wait for each other when the group is made, and for a sum to begin."""


@dataclass(frozen=True)
class Membership:
    """What a member of a team is told first."""

    config: JobConfig
    manifest: Manifest
    data: Path
    """The folder of the data set."""
    execution: Execution
    micro_batch: int
    folder: Path | None
    rank: int
    size: int
    port: int
    weights: Path | None = None
    """That training starts from, where they are not drawn."""


@dataclass(frozen=True)
class Update:
    """One update at a learning rate; `step` chooses its windows."""

    step: int
    rate: float


@dataclass(frozen=True)
class Restore:
    """Go on from the newest checkpoint in the job's folder."""


class Team:
    """The other processes of a job, which start at once and are ready after `join`."""

    def __init__(
        self,
        config: JobConfig,
        dataset: Dataset,
        folder: Path | None,
        execution: Execution,
        micro_batch: int,
        device: torch.device,
        weights: Path | None = None,
    ) -> None:
        check_share(config, execution.gpus)
        self._size, self._backend = execution.gpus, backend_of(device)
        self._store = store_at(0)
        self._members = [_start() for _ in range(1, self._size)]
        for rank, member in enumerate(self._members, 1):
            told = Membership(
                config,
                dataset.manifest,
                dataset.folder,
                execution,
                micro_batch,
                folder,
                rank,
                self._size,
                self._store.port,
                weights,
            )
            self._tell(member, told)

    def join(self) -> None:
        """Wait until all are ready, and make the group that adds up.

        Raises `RuntimeError` where one of them has ended.
        """
        for member in self._members:
            assert member.stdout is not None
            if not member.stdout.readline():
                raise self._ended(member)
        make_group(self._backend, self._store, 0, self._size)

    def begin_update(self, step: int, rate: float, windows: Tensor) -> Tensor:
        """Have all others take part in an update; returns the leader's part of its windows.

        Raises `RuntimeError` where one of them has ended.
        """
        self._tell_all(Update(step, rate))
        return share_of(windows, 0, self._size)

    def restore(self) -> None:
        """Have all others go on from the newest checkpoint in the job's folder."""
        self._tell_all(Restore())

    def _tell_all(self, message: object) -> None:
        for member in self._members:
            if member.poll() is not None:
                raise self._ended(member)
            self._tell(member, message)

    def close(self) -> None:
        """Let the others end, and wait for it."""
        for member in self._members:
            assert member.stdin is not None
            assert member.stdout is not None
            with suppress(BrokenPipeError):
                member.stdin.close()
            member.stdout.close()
            if not dist.is_initialized():  # it would wait for a group that is never made
                member.kill()
        for member in self._members:
            try:
                member.wait(timeout=30)
            except subprocess.TimeoutExpired:
                member.kill()
                member.wait()
        if dist.is_initialized():
            dist.destroy_process_group()

    def _tell(self, member: "subprocess.Popen[bytes]", message: object) -> None:
        assert member.stdin is not None
        try:
            pickle.dump(message, member.stdin)
            member.stdin.flush()
        except BrokenPipeError:
            raise self._ended(member) from None

    def _ended(self, member: "subprocess.Popen[bytes]") -> RuntimeError:
        rank = self._members.index(member) + 1
        return RuntimeError(f"process {rank} of the job's {self._size} ended with {member.wait()}")


def _start() -> "subprocess.Popen[bytes]":
    """In a session of its own: Ctrl-C is for the leader, which ends the others when it has saved."""
    command = [sys.executable, "-m", "headcount.trainer.team.member"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)


def store_at(port: int) -> Any:
    """Where the processes find each other; one of its own, at a free port, where `port` is 0."""
    # mypy finds no TCPStore, which comes from C++
    return dist.TCPStore(LOOPBACK, port, is_master=port == 0, wait_for_workers=False)  # type: ignore[attr-defined]


def backend_of(device: torch.device) -> str:
    return "nccl" if device.type == "cuda" else "gloo"


def make_group(backend: str, store: Any, rank: int, size: int) -> None:
    """Join the group of the job's processes; returns when all have."""
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=PATIENCE)


def check_share(config: JobConfig, gpus: int) -> None:
    """Raises `UserError` unless the windows of an update can be shared out equally."""
    windows = batch_windows(config)
    if windows % gpus:
        near = max(n for n in range(1, gpus) if windows % n == 0)
        raise UserError(f"{gpus} GPUs cannot share the {windows} windows of an update equally; {near} can")


def share_of(windows: Tensor, rank: int, size: int) -> Tensor:
    """The windows of one process, of all [n, ...]."""
    part = len(windows) // size
    return windows[rank * part : (rank + 1) * part]


def add_up(large: Sequence[Tensor], small: Sequence[Tensor]) -> None:
    """Replace each tensor by its sum over the processes, in place: large ones one by one; small ones, all of
    one type, together."""
    for tensor in large:
        dist.all_reduce(tensor)
    together = torch.cat([tensor.reshape(-1) for tensor in small])
    dist.all_reduce(together)
    parts = torch.split(together, [tensor.numel() for tensor in small])
    torch._foreach_copy_(list(small), [p.view_as(t) for p, t in zip(parts, small, strict=True)])
