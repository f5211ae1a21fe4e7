"""What is found of a machine, and how to mend it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from headcount.orchestrator.upkeep.nodes import NodeReport

GIB = 2**30
LOW_DISK = 5 * GIB
NO_DISK = GIB // 2
BUSY_CARD = 0.9
"""A card with less than this free is used, by our slots or by others."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    level: Literal["ok", "warning", "wrong"]
    subject: str
    words: str
    mend: str = ""
    """What to do; empty where nothing is to be done."""


def machine_findings(name: str, found: NodeReport, like: NodeReport | None = None) -> Iterator[Finding]:
    """Of one machine; `like` is the one that it must agree with."""
    yield from _packages(name, found, like)
    yield from _cards(name, found)
    for folder, free in found.free.items():
        yield _disk(f"{name}, disk of {folder}", free)


def _packages(name: str, found: NodeReport, like: NodeReport | None) -> Iterator[Finding]:
    versions = {package: version for package, version in found.versions.items() if version}
    listed = ", ".join(f"{package} {version}" for package, version in versions.items())
    yield Finding("ok", name, f"{found.host}, Python {found.python}, {listed}")
    if found.versions["torch"] is None:
        yield Finding(
            "wrong",
            f"{name}, torch",
            "not installed",
            "pip install 'headcount[train]': jobs need it to train",
        )
    elif found.torch_problem is not None:
        yield Finding(
            "wrong", f"{name}, torch", found.torch_problem, "install a PyTorch that fits the driver here"
        )
    if found.cards and found.versions["triton"] is None:
        yield Finding(
            "warning",
            f"{name}, triton",
            "not installed: depth routing runs without its kernels",
            "pip install 'headcount[train]'",
        )
    if like is None:
        return
    for package in ("headcount", "torch"):
        if found.versions[package] != like.versions[package]:
            ours, theirs = like.versions[package], found.versions[package]
            yield Finding(
                "wrong" if package == "headcount" else "warning",
                f"{name}, {package}",
                f"{theirs or 'none'} there, {ours or 'none'} here",
                "install the same on every node: its slots are refused, or its jobs are another environment",
            )
    if found.numerics != like.numerics:
        yield Finding(
            "wrong",
            f"{name}, numerics",
            f"{found.numerics} there, {like.numerics} here: it would train to other numbers",
            "install the same Headcount on every node",
        )


def _cards(name: str, found: NodeReport) -> Iterator[Finding]:
    if not found.cards and found.torch_problem is None:
        yield Finding("ok", f"{name}, GPU", "none; jobs train on CPU slots")
    for index, card in enumerate(found.cards):
        free, total = card["free"], card["total"]
        words = f"{card['name']}, {free / GIB:.0f} of {total / GIB:.0f} GiB free"
        used = free < BUSY_CARD * total
        yield Finding(
            "warning" if used else "ok",
            f"{name}, GPU {index}",
            words,
            "in use: by slots at work, or by others, whom nvidia-smi names" if used else "",
        )


def _disk(subject: str, free: int | None) -> Finding:
    if free is None:
        return Finding("wrong", subject, "cannot be written", "make the folder writable, or name another")
    words = f"{free / GIB:.1f} GiB free"
    if free < LOW_DISK:
        mend = "headcount gc shows what can be deleted"
        return Finding("wrong" if free < NO_DISK else "warning", subject, words, mend)
    return Finding("ok", subject, words)
