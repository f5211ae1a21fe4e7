"""A sweep as one file: what goes in comes out, on every engine, and a bad file leaves the store as it was."""

import gzip
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import CONTROL, build_sweep
from plans import FILES, finish, make_plan, start_next, submit_text
from sqlalchemy import func, select, text, update

from headcount.orchestrator.exchange.bundle import write_bundle
from headcount.orchestrator.exchange.importing import Imported, import_bundle
from headcount.orchestrator.store import Store, open_store
from headcount.orchestrator.store.models import Attempt, Base, Dataset, Event, Job, Sweep, SweepJob
from headcount.trainer.errors import UserError

STATES = {(1, 1, 1e-3, 0): "diverged", (2, 1, 1e-3, 0): "failed", (16, 1, 1e-3, 0): "cancelled"}

FACTS = {
    "job": "SELECT * FROM job ORDER BY id",
    "curves": "SELECT e.job_id, step, number, loss FROM evaluation e JOIN attempt a ON a.id = attempt_id"
    " ORDER BY e.job_id, step",
    "progress": "SELECT p.job_id, step, number, loss, gradient_norm FROM progress p"
    " JOIN attempt a ON a.id = attempt_id ORDER BY p.job_id, step",
    "attempts": "SELECT job_id, number, slot, environment, started, ended, cause, message FROM attempt"
    " ORDER BY job_id, number",
    "measurements": "SELECT * FROM measurement ORDER BY job_id, name",
    "sweeps": "SELECT name, yaml, axes, seeds, analysis, owner, created FROM sweep ORDER BY name",
    "wishes": "SELECT s.name, w.job_id, c.settings, k.settings, w.control_job_id, w.position, c.is_control"
    " FROM sweep_job w JOIN sweep s ON s.id = w.sweep_id JOIN cell c ON c.id = w.cell_id"
    " LEFT JOIN cell k ON k.id = c.control_id ORDER BY s.name, w.position",
    "datasets": "SELECT * FROM dataset ORDER BY fingerprint",
}


def facts(store: Store) -> dict[str, list[Any]]:
    """Everything that a sweep is, without the numbers of rows."""
    with store.read() as session:
        return {name: [tuple(row) for row in session.execute(text(query))] for name, query in FACTS.items()}


def sizes(store: Store) -> list[int | None]:
    with store.read() as session:
        return [session.scalar(select(func.count()).select_from(t)) for t in Base.metadata.sorted_tables]


@pytest.fixture
def other(store_url: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A second store, on the same engine."""
    sqlite = store_url.startswith("sqlite")
    opened = open_store(
        f"sqlite:///{tmp_path / 'other.db'}" if sqlite else request.getfixturevalue("postgres")()
    )
    yield opened
    opened.close()


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A sweep's bundle, from a store that is not asked again."""
    store = open_store(f"sqlite:///{tmp_path / 'source.db'}")
    with store.write() as session:
        build_sweep(session, kv_heads=(1,), states=STATES)
    with store.read() as session:
        write_bundle(session, "head-count", tmp_path / "head-count.tar.gz", FILES.read)
    store.close()
    return tmp_path / "head-count.tar.gz"


def test_a_sweep_goes_to_another_store_whole(store: Store, other: Store, tmp_path: Path) -> None:
    with store.write() as session:
        build_sweep(session, kv_heads=(1,), states=STATES)
    with other.write() as session:  # so that its numbers of rows are not those of the first
        build_sweep(session, "here", kv_heads=(4,), seeds=(7,), random=5)
    with store.read() as session:
        written = write_bundle(session, "head-count", tmp_path / "head-count.tar.gz", FILES.read)
    before = facts(other)
    found = import_bundle(other, written.file, FILES)
    assert found == Imported("head-count", new=18, completed=0, kept=0, unsettled=0)
    moved = facts(other)
    for name, rows in facts(store).items():
        added = rows if name != "datasets" else []  # both sweeps are of one text
        assert sorted(map(str, before[name] + added)) == sorted(map(str, moved[name])), name
    with other.read() as session:
        again = write_bundle(session, "head-count", tmp_path / "again.tar.gz", FILES.read)
    assert again.rows == written.rows


def test_importing_twice_changes_nothing(store: Store, bundle: Path) -> None:
    import_bundle(store, bundle, FILES)
    with store.read() as session:
        version = session.scalar(select(Sweep.version))
        assert session.scalars(select(Event.kind)).all() == ["imported"]
    before = sizes(store), facts(store)
    assert import_bundle(store, bundle, FILES) == Imported("head-count", 0, 0, kept=18, unsettled=0)
    assert (sizes(store), facts(store)) == before
    with store.read() as session:
        assert session.scalar(select(Sweep.version)) == version


def test_an_imported_attempt_leads_to_no_output(store: Store, other: Store, tmp_path: Path) -> None:
    with store.write() as session:
        build_sweep(session, kv_heads=(1,))
        session.execute(update(Attempt).values(log="jobs/output.txt"))
        written = write_bundle(session, "head-count", tmp_path / "head-count.tar.gz", FILES.read)
    import_bundle(other, written.file, FILES)
    with other.read() as session:
        assert set(session.scalars(select(Attempt.log))) == {None}


def test_the_same_results_make_the_same_bytes(store: Store, tmp_path: Path) -> None:
    with store.write() as session:
        build_sweep(session, kv_heads=(1,))
    with store.read() as session:
        one = write_bundle(session, "head-count", tmp_path / "one.tar.gz", FILES.read)
        two = write_bundle(session, "head-count", tmp_path / "two.tar.gz", FILES.read)
    assert one.file.read_bytes() == two.file.read_bytes()
    assert one.sha256 == two.sha256


def test_it_does_not_tell_where_a_registered_data_set_lay(store: Store, other: Store, tmp_path: Path) -> None:
    with store.write() as session:
        build_sweep(session, kv_heads=(1,))
        dataset = session.scalars(select(Dataset)).one()
        shards = [
            {"file": f"/scratch/ada/text/{part}-00000.bin", "tokens": 3, "sha256": "a" * 64} for part in "tv"
        ]
        dataset.manifest = {**dataset.manifest, "train": shards[:1], "validation": shards[1:]}
    with store.read() as session:
        written = write_bundle(session, "head-count", tmp_path / "head-count.tar.gz", FILES.read)
    import_bundle(other, written.file, FILES)
    with other.read() as session:
        manifest = session.scalars(select(Dataset)).one().manifest
    assert manifest == {
        **dataset.manifest,
        "train": [shards[0] | {"file": "t-00000.bin"}],
        "validation": [shards[1] | {"file": "v-00000.bin"}],
    }


def test_results_come_to_jobs_that_wait_for_them(store: Store, other: Store, tmp_path: Path) -> None:
    """Trained elsewhere by the same plan: the ids are the same, so the results find their jobs."""
    submit_text(store)
    submit_text(other)
    with other.write() as session:
        finish(session, start_next(session))
        running = start_next(session)
    with other.read() as session:
        file = write_bundle(session, "tiny", tmp_path / "tiny.tar.gz", FILES.read).file
    assert import_bundle(store, file, FILES) == Imported("tiny", new=0, completed=1, kept=5, unsettled=0)
    first = make_plan().jobs[0].id
    with store.read() as session:
        job = session.get_one(Job, first)
        assert (job.state, job.tail_mean) == ("finished", pytest.approx((3.25 + 3.1875 + 3.125) / 3))
        assert session.get_one(Job, running.job_id).state == "queued"
        assert session.scalar(select(func.count()).select_from(SweepJob).where(SweepJob.wanted)) == 6
    with store.write() as session:  # a result here is never replaced
        session.get_one(Job, first).tail_mean = 1.0
    import_bundle(store, file, FILES)
    with store.read() as session:
        assert session.get_one(Job, first).tail_mean == 1.0


def test_what_was_at_work_elsewhere_is_not_started_here(store: Store, other: Store, tmp_path: Path) -> None:
    submit_text(other)
    with other.write() as session:
        work = start_next(session)
    with other.read() as session:
        file = write_bundle(session, "tiny", tmp_path / "tiny.tar.gz", FILES.read).file
    assert import_bundle(store, file, FILES) == Imported("tiny", new=6, completed=0, kept=0, unsettled=6)
    with store.read() as session:
        assert set(session.scalars(select(Job.state))) == {"cancelled"}
        assert set(session.scalars(select(SweepJob.wanted))) == {False}
        assert session.execute(text("SELECT job_id, cause FROM attempt")).all() == [
            (work.job_id, "cancelled")
        ]
    found = submit_text(store)  # asked for, it goes on
    assert (found.known, found.requeued) == (6, 6)


def test_another_sweep_of_that_name_is_not_touched(store: Store, bundle: Path) -> None:
    with store.write() as session:
        build_sweep(session, kv_heads=(1, 2), states={(CONTROL, 2, 1e-3, 0): "queued"}, random=9)
    before = sizes(store)
    with pytest.raises(
        UserError, match=r"another sweep called 'head-count' \(its axes differs\); give --name"
    ):
        import_bundle(store, bundle, FILES)
    assert sizes(store) == before
    assert import_bundle(store, bundle, FILES, "theirs").kept == 18  # its jobs are those of the sweep here
    with store.read() as session:
        assert session.scalars(select(Sweep.name).order_by(Sweep.name)).all() == ["head-count", "theirs"]


def _rewrite(bundle: Path, member: str, change: Callable[[bytes], bytes]) -> None:
    with tarfile.open(bundle) as archive:
        content = {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]
    content[member] = change(content.get(member, b""))
    folder = bundle.parent / "rewritten"
    with tarfile.open(bundle, "w:gz") as archive:
        for name, data in content.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            archive.add(file, name)


def _restate(bundle: Path, member: str, change: Callable[[bytes], bytes]) -> None:
    """Change a member, and the manifest so that it states the changed one."""
    import hashlib

    changed: list[bytes] = []
    _rewrite(bundle, member, lambda data: changed.append(change(data)) or changed[0])  # type: ignore[func-returns-value]

    def state(manifest: bytes) -> bytes:
        stated = json.loads(manifest)
        stated["sha256"][member.removeprefix("tables/")] = hashlib.sha256(changed[0]).hexdigest()
        return json.dumps(stated).encode()

    _rewrite(bundle, "manifest.json", state)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda b: b.write_bytes(b.read_bytes()[:-2000]), "is torn, or not a sweep's bundle"),
        (lambda b: b.write_bytes(b"PK\x03\x04 a zip"), "is torn, or not a sweep's bundle"),
        (
            lambda b: b.write_bytes(gzip.compress(b"no archive in here" * 99)),
            "is torn, or not a sweep's bundle",
        ),
        (lambda b: b.unlink(), "cannot read .*: No such file or directory"),
        (lambda b: _rewrite(b, "notes.txt", lambda d: b"hello"), "it holds 'notes.txt'"),
        (lambda b: _rewrite(b, "../../etc/passwd", lambda d: b"x"), "is torn|it holds"),
        (lambda b: _rewrite(b, "manifest.json", lambda d: b"{}"), "it has no manifest.json that we can read"),
        (
            lambda b: _rewrite(b, "manifest.json", lambda d: d.replace(b'"format": 2', b'"format": 3')),
            "written by a newer Headcount",
        ),
        (
            lambda b: _rewrite(b, "tables/job.jsonl", lambda d: d.replace(b"3.3", b"3.2", 1)),
            "job.jsonl is not what the manifest states",
        ),
        (
            lambda b: _restate(b, "tables/job.jsonl", lambda d: d.replace(b'"numerics"', b'"numbers"', 1)),
            "job.jsonl:1: job has no column 'numbers'",
        ),
        (
            lambda b: _restate(b, "tables/attempt.jsonl", lambda d: d.splitlines(keepends=True)[0]),
            "attempt has 1 rows where 17 are stated|do not fit together",
        ),
        (
            lambda b: _restate(b, "tables/job.jsonl", lambda d: d.replace(b'"train"', b'"other"')),
            "its rows do not fit together",
        ),
    ],
    ids=[
        "torn",
        "zip",
        "no-archive",
        "missing",
        "foreign",
        "outside",
        "no-manifest",
        "newer",
        "hash",
        "column",
        "rows",
        "kind",
    ],
)
def test_a_bad_file_is_refused_and_nothing_is_half_imported(
    store: Store, bundle: Path, harm: Callable[[Path], object], message: str
) -> None:
    harm(bundle)
    with pytest.raises(UserError, match=message):
        import_bundle(store, bundle, FILES)
    assert sum(n or 0 for n in sizes(store)) == 0


def test_a_file_that_cannot_be_written_leaves_nothing_behind(store: Store, tmp_path: Path) -> None:
    with store.write() as session:
        build_sweep(session, kv_heads=(1,), curves=False)
    with store.read() as session, pytest.raises(UserError, match=r"cannot write .*No such file or directory"):
        write_bundle(session, "head-count", tmp_path / "nowhere" / "file.tar.gz", FILES.read)
    assert not (tmp_path / "nowhere").exists()
