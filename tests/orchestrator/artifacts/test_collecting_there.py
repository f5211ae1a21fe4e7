"""`gc` where artifacts lie in a bucket: the same is found and deleted there."""

from datetime import timedelta
from pathlib import Path

from plans import end, finish, start_next, submit_text
from s3_server import Bucket

from headcount.orchestrator.artifacts.address import Artifacts
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import open_store
from headcount.orchestrator.store.journal import now
from headcount.orchestrator.store.models import Artifact
from headcount.orchestrator.store.transitions import attempt_folder, job_folder
from headcount.orchestrator.upkeep.collecting import collect, find_piles


def test_what_ended_jobs_left_in_a_bucket_is_found_and_deleted(bucket: Bucket, tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'headcount.db'}")
    settings = Settings(tmp_path, "", tmp_path / "artifacts", bucket.url)
    artifacts = Artifacts(bucket.url)
    submit_text(store)
    with store.write() as session:
        works = [start_next(session) for _ in range(3)]
        finish(session, works[0])
        end(session, works[1], "user_error")
        for work in works:
            folder = attempt_folder(work.job_id, work.number)
            for name in (
                "checkpoints/step-00000040.pt",
                "checkpoints/step-00000040.json",
                "model.safetensors",
            ):
                artifacts.write(f"{folder}/{name}", bytes(100))
            artifacts.write(work.log, bytes(10))
        key = f"{attempt_folder(works[1].job_id, 1)}/checkpoints/step-00000040.pt"
        lost = attempt_folder(works[0].job_id, 0)  # given up, and writing on
        artifacts.write(f"{lost}/checkpoints/step-00000020.pt", bytes(50))
        session.add(
            Artifact(key=key, job_id=works[1].job_id, kind="checkpoint", sha256="ab" * 32, created=now())
        )
    before = now() + timedelta(minutes=1)
    piles = {pile.kind: pile for pile in find_piles(store, settings, before)}
    # the checkpoint of the finished job was told by itself
    assert {kind: (len(p.items), p.size) for kind, p in piles.items()} == {
        "checkpoints": (2, 450),
        "models": (0, 0),
        "logs": (2, 20),
        "jobs": (0, 0),
        "weights": (0, 0),
    }
    for kind in ("checkpoints", "logs"):
        assert collect(store, settings, piles[kind], before, "tester") == 2
    left = artifacts.files("jobs")
    running = job_folder(works[2].job_id)
    assert len([key for key in left if key.startswith(running)]) == 4
    others = [key.rpartition("/")[2] for key in left if not key.startswith(running)]
    assert others == ["model.safetensors"] * 2
    store.close()
