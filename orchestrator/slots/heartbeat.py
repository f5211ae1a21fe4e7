"""Whether a slot that says nothing is alive: told from outside its process.

Three signs, none of which needs the slot's interpreter lock, so that a long call into C code never looks
like death. Ray's raylet, in C++, holds a socket to each slot and tells of its death at once; the cluster's
head asks every raylet for life; and a warden beside the slots reads from the kernel whether each process runs
and computes.
"""

from dataclasses import dataclass
from pathlib import Path

STOPPED_SECONDS = 30.0
"""A process that has been stopped, as by a debugger, for so long is given up."""

STILL_SECONDS = 15 * 60.0
"""So long without a word from its job, a process that computes nothing either hangs."""

WORDLESS_SECONDS = 60 * 60.0
"""So long without a word a job hangs, computing or not: a word comes each second, or after an evaluation."""

_TICKS = 100
"""A second, in proc(5)."""


@dataclass(frozen=True)
class Sign:
    """A process as the kernel sees it."""

    state: str
    """Such as R, S, D or T, by proc(5)."""
    cpu_seconds: float


@dataclass
class Pulse:
    """What has been seen of a slot's process, on the clock that the scheduler sees it by."""

    cpu_seconds: float = 0.0
    moved_at: float = 0.0
    stopped_at: float | None = None

    def feel(self, sign: Sign, now: float) -> None:
        if sign.cpu_seconds > self.cpu_seconds + 0.01 * max(0.0, now - self.moved_at):
            # more than a hundredth of the time: threads that only look at their clocks use less
            self.cpu_seconds, self.moved_at = sign.cpu_seconds, now
        if sign.state not in "Tt":
            self.stopped_at = None
        elif self.stopped_at is None:
            self.stopped_at = now

    def verdict(self, heard_at: float, now: float) -> tuple[str, str] | None:
        """Cause and message of a slot at work that is to be given up; `heard_at` is its job's last word."""
        if self.stopped_at is not None and now - self.stopped_at >= STOPPED_SECONDS:
            return "slot_lost", f"its process has been stopped for {now - self.stopped_at:.0f} s"
        wordless = now - heard_at
        still = now - max(self.moved_at, heard_at)
        if still >= STILL_SECONDS:
            return "timed_out", f"told nothing and computed nothing for {still / 60:.0f} minutes"
        if wordless >= WORDLESS_SECONDS:
            return "timed_out", f"told nothing for {wordless / 60:.0f} minutes"
        return None


def read_sign(pid: int) -> Sign | None:
    """None where there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return Sign(fields[0], (int(fields[11]) + int(fields[12])) / _TICKS)
