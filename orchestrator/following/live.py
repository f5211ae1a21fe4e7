"""Showing a sweep while it runs: a live picture on a terminal, a line now and then elsewhere."""

import re
import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headcount.orchestrator.following.overview import SweepState
from headcount.orchestrator.following.time_to_go import TimeToGo
from headcount.sweeps.rendering import duration
from headcount.trainer.errors import UserError

LINE_SECONDS = 10.0


class Picture:
    """Shows states as they come; a context manager."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.began = time.monotonic()
        self._line, self._line_at = "", -LINE_SECONDS
        self._live = (
            Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        )

    def __enter__(self) -> "Picture":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live:
            self._live.stop()

    def show(self, state: SweepState, to_go: TimeToGo | None, note: str = "") -> None:
        line = f"{state.name}: {state.progress}"
        if self._live:
            clock = f"{duration(time.monotonic() - self.began)} gone, {to_go_words(to_go, state)}"
            self._live.update(
                Group(Text(f"{line}  ({clock})"), Text(note), running_table(state)), refresh=True
            )
        elif line != self._line and time.monotonic() - self._line_at >= LINE_SECONDS:
            self.console.print(f"{line} ({to_go_words(to_go, state)})", highlight=False, soft_wrap=True)
            self._line, self._line_at = line, time.monotonic()


def cell_words(settings: Mapping[str, Any]) -> str:
    """A cell's settings by the last part of each axis name."""
    return " ".join(f"{axis.rpartition('.')[2]}={value}" for axis, value in settings.items()) or "-"


def seconds_of(text: str, option: str) -> float:
    """Seconds of a time such as 90s, 8m, 1.5h or 2d, given for `option`. Raises `UserError`."""
    found = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)([smhd])", text.strip())
    if not found or not float(found[1]):
        raise UserError(f"{option} {text}: expected a time such as 90s, 8m, 2h or 30d")
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86_400}[found[2]]


def to_go_words(to_go: TimeToGo | None, state: SweepState) -> str:
    if state.paused and not state.running:
        return f"to go on: headcount resume {state.name}"
    if not state.running:
        return "waiting for a slot"
    if to_go is None:
        return "time to go not known before the first job has finished"
    least, most = duration(to_go.least), duration(to_go.most)
    return f"{least} to go" if least == most else f"{least} to {most} to go"


def running_table(state: SweepState) -> Table:
    """The jobs on slots, a row each."""
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="dim")
    for name in ("job", "cell"):
        table.add_column(name)
    for name in ("seed", "step", "loss", "tokens/s"):
        table.add_column(name, justify="right")
    for job in state.running:
        table.add_row(
            job.id[:8],
            cell_words(job.settings),
            str(job.seed),
            f"{job.step}/{job.steps}",
            "" if job.loss is None else f"{job.loss:.4f}",
            "" if job.tokens_per_second is None else f"{job.tokens_per_second:,.0f}",
        )
    return table
