"""The archives of finished studies that come with Headcount: whole, small, and of the studies as they are."""

import json
import tarfile
from pathlib import Path

import pytest
from sqlalchemy import select

import headcount.sweeps
from headcount.orchestrator.artifacts.folder import FolderArtifacts
from headcount.orchestrator.exchange.bundle import SUFFIX
from headcount.orchestrator.exchange.importing import import_bundle
from headcount.orchestrator.store import open_store
from headcount.orchestrator.store.models import Dataset, Job
from headcount.sweeps.file.spec import load_spec
from headcount.sweeps.planning.plan import plan
from headcount.sweeps.studies import study_files
from headcount.trainer.config import NUMERICS
from headcount.trainer.data import Manifest

MOST_BYTES = 10_000_000
LEFT = {"compact-residuals": 17}
"""Jobs that a study had no time for; they come as not asked for."""
ARCHIVES = sorted(Path(headcount.sweeps.__path__[0]).glob(f"*{SUFFIX}"))


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda archive: archive.name)
def test_it_holds_the_jobs_that_its_study_asks_for_and_their_results(archive: Path, tmp_path: Path) -> None:
    """Under the same ids, where the numerics are today's: the study trains nothing on the same text."""
    store = open_store(f"sqlite:///{tmp_path / 'headcount.db'}")
    found = import_bundle(store, archive, FolderArtifacts(tmp_path))
    assert found.unsettled == LEFT.get(found.sweep, 0)
    assert archive.name == f"{found.sweep}{SUFFIX}"
    with store.read() as session:
        dataset = session.scalars(select(Dataset)).one()
        jobs = {job.id: job.tail_mean for job in session.scalars(select(Job))}
        numerics = set(session.scalars(select(Job.numerics)))
    store.close()
    name = found.sweep.removesuffix("-small")
    manifest = Manifest.from_json(json.dumps(dataset.manifest))
    asked = plan(load_spec(study_files()[name], small=name != found.sweep), lambda config: manifest)
    assert len(jobs) == len(asked.jobs)
    if numerics == {NUMERICS}:
        assert set(jobs) == {job.id for job in asked.jobs}
    assert list(jobs.values()).count(None) == found.unsettled


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda archive: archive.name)
def test_it_is_small_and_tells_nothing_of_the_machine_beyond_its_hardware(archive: Path) -> None:
    assert archive.stat().st_size < MOST_BYTES
    with tarfile.open(archive) as opened:
        for member in opened:
            content = opened.extractfile(member)
            assert content is not None
            text = content.read()
            assert b"/tmp/" not in text, member.name
            assert b"/home/" not in text, member.name
            assert b"/root/" not in text, member.name
