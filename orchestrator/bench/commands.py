"""`headcount bench scheduler` and `headcount bench packing`, beside what the rooms below time."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headcount.trainer.bench.commands import bench

if TYPE_CHECKING:
    from headcount.orchestrator.bench.figures import Figure

__all__ = ["bench"]

_PARTS = ("race", "queue", "growth", "slots")


@bench.command()
@click.argument("parts", nargs=-1, type=click.Choice(_PARTS))
@click.option("--url", metavar="URL", help="An empty database to work on; SQLite files of its own otherwise.")
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw the growth: FILE.svg, .png or .pdf."
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def scheduler(parts: tuple[str, ...], url: str | None, plot: Path | None, as_json: bool) -> None:
    """What scheduling costs; PARTS are all of race, queue, growth and slots where none is named.

    race: 1,000 trivial jobs beside Ray Tune. queue: 10,000 jobs planned, submitted and begun. growth: the
    cost of an event from 100 to 10,000 jobs. slots: 1,000 slots in real time, for four minutes.
    """
    import tempfile

    from headcount.orchestrator.bench.scheduling import measure
    from headcount.orchestrator.settings import with_driver

    where = with_driver(url, "--url") if url else None
    with tempfile.TemporaryDirectory(prefix="headcount-bench-") as folder:
        lines = (line for part in parts or _PARTS for line in measure(part, Path(folder), where, plot))
        _show(lines, as_json)


@bench.command()
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cuda", show_default=True)
@click.option("--scale", default="micro", show_default=True, help="Of the jobs.")
@click.option(
    "--steps",
    type=click.IntRange(8),
    help="Of each job; else as many as all rounds have in about 80 seconds.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def packing(device: str, scale: str, steps: int | None, as_json: bool) -> None:
    """Jobs an hour at 1, 2, 4 and 8 at a time on one card, and whether sharing it changed any bit."""
    import tempfile

    from headcount.orchestrator.bench.sharing import packing as measure

    with tempfile.TemporaryDirectory(prefix="headcount-bench-") as folder:
        _show(measure(Path(folder), device, scale, steps), as_json)


def _show(lines: "Iterable[Figure | str]", as_json: bool) -> None:
    """Figures as they are found, or all at the end as JSON."""
    import json
    from dataclasses import asdict

    found = []
    for line in lines:
        if not isinstance(line, str):
            found.append({**asdict(line), "kept": line.kept})
        if not as_json:
            click.echo(line if isinstance(line, str) else line.line())
    if as_json:
        click.echo(json.dumps(found, indent=2))
