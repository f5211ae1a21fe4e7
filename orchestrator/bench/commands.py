"""`headcount bench scheduler`, beside what the rooms below time."""

import click

from headcount.trainer.bench_commands import bench

__all__ = ["bench"]

_PARTS = ("race", "queue", "growth", "slots")


@bench.command()
@click.argument("parts", nargs=-1, type=click.Choice(_PARTS))
@click.option("--url", metavar="URL", help="An empty database to work on; SQLite files of its own otherwise.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def scheduler(parts: tuple[str, ...], url: str | None, as_json: bool) -> None:
    """What scheduling costs; PARTS are all of race, queue, growth and slots where none is named.

    race: 1,000 trivial jobs beside Ray Tune. queue: 10,000 jobs planned, submitted and begun. growth: the
    cost of an event from 100 to 10,000 jobs. slots: 1,000 slots in real time, for four minutes.
    """
    import json
    import tempfile
    from dataclasses import asdict
    from pathlib import Path

    from headcount.orchestrator.bench.figures import Figure
    from headcount.orchestrator.bench.scheduling import measure
    from headcount.orchestrator.settings import with_driver

    where = with_driver(url, "--url") if url else None
    found = []
    with tempfile.TemporaryDirectory(prefix="headcount-bench-") as folder:
        for part in parts or _PARTS:
            for line in measure(part, Path(folder), where):
                if isinstance(line, Figure):
                    found.append({"part": part, **asdict(line), "kept": line.kept})
                if not as_json:
                    click.echo(line.line() if isinstance(line, Figure) else line)
    if as_json:
        click.echo(json.dumps(found, indent=2))
