"""A small process beside a node's slots: tells of the node what its slots cannot tell themselves."""

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headcount import __version__
from headcount.orchestrator.cluster.card_memory import CardUse, read_cards, visible_cards
from headcount.orchestrator.slots.heartbeat import Sign, read_sign
from headcount.trainer.config import NUMERICS


@dataclass(frozen=True)
class Report:
    """A node as its warden finds it."""

    host: str
    version: str
    numerics: int
    unseen: tuple[str, ...]
    """Folders in which the scheduler's mark was not seen."""
    signs: dict[int, Sign]
    """Of the processes that were asked for."""
    cards: tuple[CardUse, ...]
    visible: tuple[int, ...] = ()
    """The numbers of the cards that its Ray was started with; nothing where it has them all."""


class Warden:
    """An actor on each node; it holds no processor and no card, and ends with its scheduler."""

    def report(self, pids: Sequence[int], marks: Sequence[str]) -> Report:
        """`marks` are files that lie in folders which all nodes should share."""
        signs = {pid: sign for pid in pids if (sign := read_sign(pid))}
        unseen = tuple(str(Path(mark).parent) for mark in marks if not _is_seen(Path(mark)))
        cards = tuple(read_cards())
        visible = visible_cards(_begun_with("CUDA_VISIBLE_DEVICES"))
        return Report(socket.gethostname(), __version__, NUMERICS, unseen, signs, cards, visible)


def refusal(report: Report) -> str | None:
    """Why a node must hold no slots; none where it may."""
    if words := version_refusal(report.version, report.numerics):
        return words
    if report.unseen:
        return (
            f"it does not share {', '.join(report.unseen)} with this machine: put HEADCOUNT_HOME and "
            "HEADCOUNT_ARTIFACTS on a disk that every node mounts at the same path"
        )
    return None


def version_refusal(version: str, numerics: int) -> str | None:
    """Why a package of that version must not train jobs of this one."""
    if numerics != NUMERICS:
        return (
            f"its headcount {version} computes other numbers (NUMERICS {numerics}, here {NUMERICS} with "
            f"headcount {__version__}); install the same version on every node"
        )
    if version != __version__:
        return f"it has headcount {version}, here is {__version__}; install the same version on every node"
    return None


def warden_options() -> dict[str, Any]:
    """Ray's options for a warden, beside those that put it on its node."""
    return {"num_cpus": 0, "num_gpus": 0, "max_restarts": 0, "max_task_retries": 0}


def _begun_with(variable: str) -> str:
    """What this process got from its node; its own environment Ray changes by what an actor holds."""
    texts = Path("/proc/self/environ").read_bytes().split(b"\0")
    prefix = f"{variable}=".encode()
    return next((text[len(prefix) :].decode() for text in texts if text.startswith(prefix)), "")


def _is_seen(mark: Path) -> bool:
    try:
        os.listdir(mark.parent)  # a network disk may remember that the file was not there
    except OSError:
        return False
    return mark.exists()
