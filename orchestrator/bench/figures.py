"""What a benchmark found: figures, each with the bound that it should keep."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Figure:
    """One measured number."""

    name: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    detail: str = ""
    """Such as the median and the number of repeats."""

    @property
    def kept(self) -> bool | None:
        """Whether the bound is kept; None without one."""
        if self.at_most is not None:
            return self.value <= self.at_most
        return None if self.at_least is None else self.value >= self.at_least

    def line(self) -> str:
        """For people."""
        bound = f"≤ {self.at_most:g}" if self.at_most is not None else ""
        bound = f"≥ {self.at_least:g}" if self.at_least is not None else bound
        verdict = {True: "kept", False: "NOT KEPT", None: ""}[self.kept]
        return f"{self.name:<58} {self.value:>9.4g} {self.unit:<7} {bound:<8} {verdict:<8} {self.detail}"


@dataclass
class Times:
    """Durations of one kind, in milliseconds."""

    values: list[float] = field(default_factory=list)

    @contextmanager
    def one(self) -> Iterator[None]:
        """Time what happens inside."""
        begun = time.perf_counter()
        yield
        self.values.append(1000 * (time.perf_counter() - begun))

    def quantile(self, share: float) -> float:
        """The value that `share` of the others do not exceed."""
        ordered = sorted(self.values)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    @property
    def median(self) -> float:
        return self.quantile(0.5)

    @property
    def p99(self) -> float:
        """The largest under 100 values."""
        return self.quantile(0.99)

    def words(self) -> str:
        """Median and number."""
        return f"median {self.median:.3g}, n = {len(self.values)}"


def repeated(work: Callable[[], object], times: int) -> Times:
    """`work`, done and timed again and again."""
    found = Times()
    for _ in range(times):
        with found.one():
            work()
    return found


def load_words() -> str:
    """How busy the machine was, for the note."""
    one, five, _ = os.getloadavg()
    return f"load {one:.1f} (5 min: {five:.1f}) on {os.cpu_count()} cores"


def resident_mib(pids: Sequence[int]) -> float:
    """Memory that processes hold for themselves now, without the files that they read in place."""
    pages = 0
    for pid in pids:
        with open(f"/proc/{pid}/statm", encoding="ascii") as text:
            _, resident, shared, *_ = map(int, text.read().split())
            pages += resident - shared
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
