"""MLflow doing the same on a store of the same engine: a SQLite file, or a database of the same server."""

import json
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import create_engine, make_url

from headcount.orchestrator.bench.figures import Times
from headcount.trainer.errors import UserError

DRIVER = "psycopg2"
"""What MLflow speaks to PostgreSQL with."""

_NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


class Theirs(NamedTuple):
    """What MLflow took."""

    version: str
    engine: str
    """Of its store, for people."""
    runs: int
    whole: Times
    """Of a run: create, log its evaluations in one batch, end."""
    batches: Times
    """Of logging the batch alone."""
    grouped: Times
    """Of `search_runs` and the groups of its data frame."""

    def words(self) -> str:
        """What was measured on what."""
        return f"MLflow {self.version}, {self.runs} runs on {self.engine}"


def mlflow_figures(python: str, runs: int, url: str) -> Theirs:
    """Let an interpreter that has MLflow do `runs` runs on the engine of `url`, in a store of its own.

    Raises `UserError` where that interpreter cannot.
    """
    engine = make_url(url).get_backend_name()
    if engine == "sqlite":
        return _run(python, runs, _NAMES[engine], None)
    with _own_database(url) as own:
        return _run(python, runs, f"{_NAMES[engine]}, in a database of its own on the same server", own)


@contextmanager
def _own_database(url: str) -> Iterator[str]:
    """The URL of an empty database on the server of `url`; it is gone afterwards."""
    name = f"mlflow_{uuid.uuid4().hex}"
    server = create_engine(url, isolation_level="AUTOCOMMIT")
    try:
        with server.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name}")
        own = make_url(url).set(drivername=f"postgresql+{DRIVER}", database=name)
        yield own.render_as_string(hide_password=False)
    finally:
        with server.connect() as connection:
            connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        server.dispose()


def _run(python: str, runs: int, engine: str, store: str | None) -> Theirs:
    script = Path(__file__).with_name("mlflow_side.py")
    command = [python, str(script), str(runs), *([store] if store else [])]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if said.returncode:
        needed = f"mlflow and {DRIVER}" if store else "mlflow"
        raise UserError(f"--mlflow {python}: it failed as told above; it needs {needed}")
    told = json.loads(said.stdout.splitlines()[-1])
    times = (Times(told[name]) for name in ("run_ms", "batch_ms", "grouped_ms"))
    return Theirs(told["version"], engine, runs, *times)
