"""A bundle into a store: what is missing is added, what is there stays, and nothing is half-imported.

A job's id is its content, so it stays the same everywhere. Ids of sweeps, cells and attempts only number the
rows of one store, and are given anew.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Table, delete, insert, select, update
from sqlalchemy.exc import IntegrityError, StatementError
from sqlalchemy.orm import Session

from headcount.orchestrator.artifacts.folder import AnyArtifacts
from headcount.orchestrator.exchange.bundle import Bundle, unpack
from headcount.orchestrator.exchange.job_files import LeftOut, put
from headcount.orchestrator.exchange.rows import Row, insert_rows
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.journal import announce_sweep, now, touch_sweeps_of
from headcount.orchestrator.store.models import (
    RESULT_STATES,
    SETTLED_STATES,
    Artifact,
    Attempt,
    Base,
    Cell,
    Job,
    Sweep,
    SweepJob,
)
from headcount.orchestrator.store.wishes import chunks
from headcount.trainer.errors import UserError

_SPEC = ("description", "yaml", "axes", "seeds", "analysis")
"""What makes two sweeps of one name the same."""

_REPLACEABLE = ("queued", "failed", "cancelled")
"""States of a job here that give way to a result from elsewhere."""


@dataclass(frozen=True)
class Imported:
    """What an import found and changed."""

    sweep: str
    new: int
    """Jobs that the store did not have."""
    completed: int
    """Jobs that the store had without a result, and the bundle with one."""
    kept: int
    """Jobs that stay as they were."""
    unsettled: int
    """New jobs that had no outcome yet: they are cancelled here, and 'headcount run' trains them."""
    lacking: tuple[LeftOut, ...] = ()
    """Initial weights that these need and nobody has put here."""


def import_bundle(store: Store, file: Path, artifacts: AnyArtifacts, name: str | None = None) -> Imported:
    """Import a sweep, under its own name or `name`, and its jobs' files into `artifacts`.

    The same bundle again changes nothing. Raises `UserError` for a file that is no whole bundle, and for a
    name that another sweep has.
    """
    with tempfile.TemporaryDirectory() as folder:
        bundle = unpack(file, Path(folder))
        try:
            with store.write() as session:
                return _import(session, bundle, artifacts, name or bundle.sweep)
        except (KeyError, IntegrityError, StatementError) as error:
            what = f"no {error}" if isinstance(error, KeyError) else str(error).splitlines()[0]
            raise UserError(f"{file}: its rows do not fit together: {what}") from error


def _import(session: Session, bundle: Bundle, artifacts: AnyArtifacts, name: str) -> Imported:
    sweep = session.scalar(select(Sweep).where(Sweep.name == name))
    if sweep is not None:
        _check_same(session, bundle, sweep)
    states: dict[str, str] = {}
    incoming = {row["id"]: row["state"] for row in bundle.rows("job")}
    for chunk in chunks(incoming):
        states.update(session.execute(select(Job.id, Job.state).where(Job.id.in_(chunk))).all())
    new = incoming.keys() - states.keys()
    completed = {
        job_id
        for job_id, state in states.items()
        if state in _REPLACEABLE and incoming[job_id] in RESULT_STATES
    }
    _add_datasets(session, bundle)
    _take_facts(session, bundle, artifacts, new, completed)
    if sweep is None:
        sweep_id = _add_sweep(session, bundle, name, unsettled=_unsettled(incoming, new))
    else:
        sweep_id = sweep.id
    if sweep is None or new or completed:
        detail = {"new": len(new), "completed": len(completed), "sha256": bundle.sha256}
        announce_sweep(session, sweep_id, "imported", **detail)
        touch_sweeps_of(session, completed)
    unsettled = _unsettled(incoming, new)
    initial = [weights for weights in bundle.left_out if weights.kind == "initial"] if unsettled else []
    held = artifacts.files("weights") if initial else {}
    return Imported(
        sweep=name,
        new=len(new),
        completed=len(completed),
        kept=len(incoming) - len(new) - len(completed),
        unsettled=len(unsettled),
        lacking=tuple(weights for weights in initial if weights.key not in held),
    )


def _unsettled(incoming: dict[str, str], new: set[str]) -> set[str]:
    return {job_id for job_id in new if incoming[job_id] not in SETTLED_STATES}


def _check_same(session: Session, bundle: Bundle, sweep: Sweep) -> None:
    [row] = bundle.rows("sweep")
    jobs = {wish["job_id"] for wish in bundle.rows("sweep_job")}
    held = set(session.scalars(select(SweepJob.job_id).where(SweepJob.sweep_id == sweep.id)))
    different = [field for field in _SPEC if row[field] != getattr(sweep, field)]
    if different or jobs != held:
        what = f"its {different[0]} differs" if different else "it has other jobs"
        raise UserError(
            f"{bundle.file}: the store has another sweep called {sweep.name!r} ({what}); "
            "give --name to import this one under a name of its own"
        )


def _add_datasets(session: Session, bundle: Bundle) -> None:
    table = Base.metadata.tables["dataset"]
    held = set(session.scalars(select(table.c.fingerprint)))
    insert_rows(session, table, (row for row in bundle.rows("dataset") if row["fingerprint"] not in held))


def _take_facts(
    session: Session, bundle: Bundle, artifacts: AnyArtifacts, new: set[str], completed: set[str]
) -> None:
    """Jobs with their attempts, curves, measurements and files: new ones, and results in place of none."""
    tables = Base.metadata.tables
    for chunk in chunks(completed):
        session.execute(delete(Artifact).where(Artifact.job_id.in_(chunk)))
        for name in ("evaluation", "progress", "measurement", "attempt"):
            session.execute(delete(tables[name]).where(tables[name].c.job_id.in_(chunk)))
    insert_rows(session, tables["job"], (_settled(r) for r in bundle.rows("job") if r["id"] in new))
    for row in bundle.rows("job"):
        if row["id"] in completed:
            facts = {k: row[k] for k in ("state", "step", "tail_mean", "diverged_step", "ended")}
            session.execute(update(tables["job"]).where(tables["job"].c.id == row["id"]).values(facts))
    taken = new | completed
    attempts = _add_attempts(session, bundle, taken)
    for name in ("evaluation", "progress", "artifact"):
        insert_rows(session, tables[name], _renumbered(bundle, name, taken, attempts))
    measured = (row for row in bundle.rows("measurement") if row["job_id"] in taken)
    insert_rows(session, tables["measurement"], measured)
    put(bundle.files, (row for row in bundle.rows("artifact") if row["job_id"] in taken), artifacts)


_AT_WORK = "was at work when exported: how it ended is not in the archive"


def _settled(row: Row) -> Row:
    """No slot here runs it, and none shall start it unasked."""
    return row if row["state"] in SETTLED_STATES else row | {"state": "cancelled", "ended": now()}


def _add_attempts(session: Session, bundle: Bundle, taken: set[str]) -> dict[int, int]:
    """Add the attempts of these jobs, without what they printed, which no bundle has.

    Returns each one's number there to its number here.
    """

    def rows() -> Iterator[Row]:
        for row in bundle.rows("attempt"):
            if row["job_id"] in taken:
                local = {k: v for k, v in row.items() if k != "id"} | {"log": None}
                if row["ended"] is None:
                    local |= {"ended": now(), "cause": "cancelled", "message": _AT_WORK}
                yield local

    insert_rows(session, Base.metadata.tables["attempt"], rows())
    here: dict[tuple[str, int], int] = {}
    for chunk in chunks(taken):
        found = select(Attempt.job_id, Attempt.number, Attempt.id).where(Attempt.job_id.in_(chunk))
        here.update({(job_id, number): own for job_id, number, own in session.execute(found)})
    return {
        row["id"]: here[row["job_id"], row["number"]]
        for row in bundle.rows("attempt")
        if row["job_id"] in taken
    }


def _renumbered(bundle: Bundle, name: str, taken: set[str], attempts: dict[int, int]) -> Iterator[Row]:
    for row in bundle.rows(name):
        if row["job_id"] in taken:
            attempt = row["attempt_id"]
            yield row | {"attempt_id": None if attempt is None else attempts[attempt]}


def _add_sweep(session: Session, bundle: Bundle, name: str, unsettled: set[str]) -> int:
    tables = Base.metadata.tables
    [row] = bundle.rows("sweep")
    if row.get("growth") in ("growing", "held"):
        row |= {"growth": "cancelled"}  # nothing of it is trained here unasked
    sweep_id = _insert_one(session, tables["sweep"], row | {"name": name})
    cells: dict[int, int] = {}
    rows = list(bundle.rows("cell"))
    for cell in rows:
        cells[cell["id"]] = _insert_one(
            session, tables["cell"], cell | {"sweep_id": sweep_id, "control_id": None}
        )
    for cell in rows:
        if cell["control_id"] is not None:
            paired = update(Cell).where(Cell.id == cells[cell["id"]])
            session.execute(paired.values(control_id=cells[cell["control_id"]]))
    wishes = (
        wish
        | {"sweep_id": sweep_id, "cell_id": cells[wish["cell_id"]]}
        | ({"wanted": False} if wish["job_id"] in unsettled else {})
        for wish in bundle.rows("sweep_job")
    )
    insert_rows(session, tables["sweep_job"], wishes)
    looks = (
        wish | {"sweep_id": sweep_id} | ({"wanted": False} if wish["job_id"] in unsettled else {})
        for wish in bundle.rows("sweep_instrument")
    )
    insert_rows(session, tables["sweep_instrument"], looks)
    trials = (
        trial | {"sweep_id": sweep_id, "cell_id": cells.get(trial["cell_id"])}
        for trial in bundle.rows("trial")
    )
    insert_rows(session, tables["trial"], trials)
    return sweep_id


def _insert_one(session: Session, table: Table, row: Row) -> int:
    """Insert a row under a number of this store's; the number."""
    values: dict[str, Any] = {k: v for k, v in row.items() if k != "id"}
    [number] = session.execute(insert(table).values(values).returning(table.c.id)).one()
    return int(number)
