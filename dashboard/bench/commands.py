"""`headcount bench dashboard`, beside what the rooms below time."""

from pathlib import Path

import click

from headcount.api.bench.commands import bench

__all__ = ["bench"]


@bench.command()
@click.option("--sweeps", type=click.IntRange(1, 1000), default=100, show_default=True, help="Of 1,000 jobs.")
@click.option("--rounds", type=click.IntRange(1, 100), default=7, show_default=True, help="Of every visit.")
@click.option(
    "--seconds", type=click.IntRange(5, 600), default=30, show_default=True, help="Of the live events."
)
def dashboard(sweeps: int, rounds: int, seconds: int) -> None:
    """The pages in a headless Chromium over a store filled for it. Needs the extra `dev` and a Chromium."""
    import tempfile

    from headcount.dashboard.bench.measure import measure

    with tempfile.TemporaryDirectory(prefix="headcount-bench-") as folder:
        for figure in measure(Path(folder), sweeps, rounds, seconds):
            click.echo(figure if isinstance(figure, str) else figure.line())
