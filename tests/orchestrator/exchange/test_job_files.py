"""What instruments found goes with a sweep's bundle, so that its tables are the same elsewhere."""

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from raw_sweep import MOMENT, RawCell, add_job, measure, write_sweep
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from headcount.api.results import measured_table
from headcount.api.results.probed import probed_cells
from headcount.orchestrator.artifacts.folder import FolderArtifacts
from headcount.orchestrator.exchange.bundle import write_bundle
from headcount.orchestrator.exchange.importing import Imported, import_bundle
from headcount.orchestrator.exchange.job_files import LeftOut
from headcount.orchestrator.store import Store, open_store
from headcount.orchestrator.store.models import Artifact, Attempt, Job, Sweep, SweepInstrument
from headcount.orchestrator.store.transitions import attempt_folder, job_folder
from headcount.trainer.errors import UserError

TABLES = ("probe", "downstream")


@pytest.fixture
def files(tmp_path: Path) -> FolderArtifacts:
    return FolderArtifacts(tmp_path / "artifacts")


@pytest.fixture
def elsewhere(tmp_path: Path) -> FolderArtifacts:
    return FolderArtifacts(tmp_path / "elsewhere")


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(f"sqlite:///{tmp_path / 'other.db'}")) as store:
        yield store


@pytest.fixture
def measured(store: Store, files: FolderArtifacts) -> dict[str, str]:
    """A control and a treatment, both scored, the treatment probed by a slot and once more waiting for it;
    ids by what they are."""
    with store.write() as session:
        cells = [RawCell({}, {0: 3.5}), RawCell({"model.routing_heads": 4}, {0: 3.4}, 0)]
        [control], [treated] = (ids.values() for ids in write_sweep(session, "depth", {"h": [4]}, cells))
        session.get_one(Job, treated).config = {"init.weights": "ab" * 32}
        _leave(session, files, treated, "model", "model.safetensors", b"weights")
        _leave(session, files, treated, "checkpoint", "step-00000040.pt", b"of an ended job")
        _leave(session, files, treated, "curve", "training_loss.npy", b"losses")
        _leave(session, files, treated, "routing", "routing.jsonl", b"gone", lost=True)
        looks = {"probe": _look(session, "probe", treated), "waiting": _look(session, "probe", treated, 1)}
        session.add(Attempt(job_id=looks["probe"], number=1, epoch=1, slot="s", started=MOMENT, ended=MOMENT))
        session.flush()
        measure(session, looks["probe"], {"probe.excess": 0.25, "probe.null": 0.125})
        weights = np.random.default_rng(0).dirichlet(np.ones(3), 4).T.tolist()
        site = {"site": 1, "disagreement": 0.5, "null": 0.25, "oldest_weight": 0.1, "weights": weights}
        content = json.dumps({"sites": [site]}).encode()
        _leave(session, files, looks["probe"], "probe", "probe.json", content, attempt=1)
        for place, parent in enumerate((control, treated)):
            scored = looks[f"evaluate {place}"] = _look(session, "evaluate", parent)
            measure(session, scored, {"downstream.heads.acc": 0.5 + place / 4})
            items = {"items": {"heads": {"acc": {"0": 1.0, "1": float(place)}}}}
            _leave(session, files, scored, "evaluate", "items.json", json.dumps(items).encode())
        sweep = session.scalars(select(Sweep.id)).one()
        session.get_one(Job, looks["waiting"]).state = "queued"
        session.add_all(SweepInstrument(sweep_id=sweep, job_id=job) for job in looks.values())
    return {"control": control, "treated": treated, **looks}


def _look(session: Session, kind: str, parent: str, number: int = 0) -> str:
    own = hashlib.sha256(f"{kind}{parent}{number}".encode()).hexdigest()
    add_job(session, own, 0, None, config={}, kind=kind, parent=parent)
    return own


def _leave(
    session: Session,
    files: FolderArtifacts,
    job: str,
    kind: str,
    name: str,
    content: bytes,
    attempt: int | None = None,
    lost: bool = False,
) -> None:
    key = f"{attempt_folder(job, attempt) if attempt else job_folder(job)}/{name}"
    own = session.scalar(select(Attempt.id).where(Attempt.job_id == job))
    digest = hashlib.sha256(content).hexdigest()
    session.add(
        Artifact(key=key, job_id=job, attempt_id=own, kind=kind, step=None, sha256=digest, created=MOMENT)
    )
    if not lost:
        files.write(key, content)


def _export(store: Store, files: FolderArtifacts, file: Path) -> list[LeftOut]:
    with store.read() as session:
        return write_bundle(session, "depth", file, files.read).left_out


def test_tables_of_instruments_are_the_same_elsewhere(
    store: Store,
    other: Store,
    files: FolderArtifacts,
    elsewhere: FolderArtifacts,
    measured: dict[str, str],
    tmp_path: Path,
) -> None:
    left = _export(store, files, tmp_path / "depth.tar.gz")
    weights = f"weights/ab/{'ab' * 32}.safetensors"
    model = f"{job_folder(measured['treated'])}/model.safetensors"
    assert [(weight.kind, weight.key) for weight in left] == [("initial", weights), ("model", model)]
    found = import_bundle(other, tmp_path / "depth.tar.gz", elsewhere)
    assert (found.new, found.unsettled, found.lacking) == (6, 1, (left[0],))
    with store.read() as here, other.read() as there:
        for name in TABLES:
            assert measured_table(there, "depth", name).rows == measured_table(here, "depth", name).rows
        cells = [2]
        ours, theirs = (
            probed_cells(session, "depth", cells, kept.read)
            for session, kept in ((here, files), (there, elsewhere))
        )
        assert list(ours) == list(theirs) == cells
        assert np.array_equal(ours[2].sites[0].weights, theirs[2].sites[0].weights)
        carried = there.execute(select(Artifact.kind, Artifact.key).order_by(Artifact.kind)).all()
        assert [kind for kind, _ in carried] == ["curve", "evaluate", "evaluate", "probe"]
        assert all(elsewhere.read(key) == files.read(key) for _, key in carried)
        assert there.scalar(select(Job.state).where(Job.id == measured["waiting"])) == "cancelled"
        wishes = dict(there.execute(select(SweepInstrument.job_id, SweepInstrument.wanted)).all())
        assert [job for job, wanted in wishes.items() if not wanted] == [measured["waiting"]]
        assert len(wishes) == 4


def test_the_same_bundle_again_changes_nothing_and_what_is_missing_comes_later(
    store: Store,
    other: Store,
    files: FolderArtifacts,
    elsewhere: FolderArtifacts,
    measured: dict[str, str],
    tmp_path: Path,
) -> None:
    _export(store, files, tmp_path / "one.tar.gz")
    import_bundle(other, tmp_path / "one.tar.gz", elsewhere)
    assert import_bundle(other, tmp_path / "one.tar.gz", elsewhere) == Imported("depth", 0, 0, 6, 0)
    with store.write() as session:
        session.get_one(Job, measured["waiting"]).state = "finished"
        measure(session, measured["waiting"], {"probe.excess": 0.75})
        _leave(session, files, measured["waiting"], "probe", "probe.json", b"{}")
    _export(store, files, tmp_path / "two.tar.gz")
    assert import_bundle(other, tmp_path / "two.tar.gz", elsewhere) == Imported("depth", 0, 1, 5, 0)
    with store.read() as here, other.read() as there:
        assert measured_table(there, "depth", "probe").rows == measured_table(here, "depth", "probe").rows
        assert there.scalar(select(func.count()).select_from(Artifact)) == 5


def test_a_file_that_is_another_one_is_refused(
    store: Store, other: Store, files: FolderArtifacts, measured: dict[str, str], tmp_path: Path
) -> None:
    _export(store, files, tmp_path / "depth.tar.gz")
    key = f"files/{attempt_folder(measured['probe'], 1)}/probe.json"
    for name, message in ((key, "is not what the bundle states"), (f"{key}/../x", "it holds")):
        _rewrite(tmp_path / "depth.tar.gz", tmp_path / "bad.tar.gz", key, name)
        with pytest.raises(UserError, match=message):
            import_bundle(other, tmp_path / "bad.tar.gz", FolderArtifacts(tmp_path / "nowhere"))
    assert not (tmp_path / "nowhere").exists()


def _rewrite(source: Path, target: Path, changed: str, name: str) -> None:
    with tarfile.open(source) as archive, tarfile.open(target, "w:gz") as out:
        for entry in archive:
            content = archive.extractfile(entry)
            assert content is not None
            data = content.read() if entry.name != changed else b"another"
            entry.name, entry.size = (name if entry.name == changed else entry.name), len(data)
            out.addfile(entry, io.BytesIO(data))
