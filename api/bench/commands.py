"""`headcount bench api`, beside what the rooms below time."""

from pathlib import Path

import click

from headcount.orchestrator.bench.commands import bench

__all__ = ["bench"]


@bench.command()
@click.option("--url", metavar="URL", help="An empty database to fill; a SQLite file of its own otherwise.")
@click.option("--sweeps", type=click.IntRange(1, 1000), default=100, show_default=True, help="Of 1,000 jobs.")
@click.option("--readers", type=click.IntRange(1, 1000), default=200, show_default=True)
@click.option("--seconds", type=click.IntRange(5, 600), default=30, show_default=True, help="Of the readers.")
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Of the service.")
@click.option("--mlflow", metavar="PYTHON", help="An interpreter that has MLflow, to do the same with.")
@click.option("--mlflow-jobs", type=click.IntRange(10, 10_000), default=2000, show_default=True)
def api(
    url: str | None,
    sweeps: int,
    readers: int,
    seconds: int,
    workers: int,
    mlflow: str | None,
    mlflow_jobs: int,
) -> None:
    """The results service over a store filled for it, alone and under load."""
    import tempfile

    from headcount.api.bench.measure import measure
    from headcount.orchestrator.settings import with_driver

    with tempfile.TemporaryDirectory(prefix="headcount-bench-") as folder:
        where = with_driver(url, "--url") if url else f"sqlite:///{folder}/headcount.db"
        for figure in measure(where, Path(folder), sweeps, readers, seconds, workers, mlflow, mlflow_jobs):
            click.echo(figure if isinstance(figure, str) else figure.line())
