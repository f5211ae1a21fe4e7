"""A sweep for TensorBoard, read back record by record, and for MLflow, which is said to be missing."""

import importlib.util
import math
import struct
from pathlib import Path

import pytest
from builders import build_sweep

from headcount.orchestrator.exchange.curves import job_curves
from headcount.orchestrator.exchange.to_mlflow import write_mlflow
from headcount.orchestrator.exchange.to_tensorboard import crc32c, write_tensorboard
from headcount.orchestrator.store import Store
from headcount.trainer.errors import UserError


@pytest.fixture
def filled(store: Store) -> Store:
    with store.write() as session:
        states = {(8, 1, 1e-3, 0): "diverged"}
        build_sweep(session, heads=(1, 8), kv_heads=(1,), seeds=(0,), states=states)
    return store


def scalars(file: Path) -> list[tuple[str, int, float]]:
    """Tag, step and value of each record, its checks compared; fields as they are laid out by the writer."""
    data, found, at = file.read_bytes(), [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        body = data[at + 12 : at + 12 + length]
        for start, part in ((at, data[at : at + 8]), (at + 12, body)):
            crc = crc32c(part)
            masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
            assert struct.unpack_from("<I", data, start + len(part)) == (masked,)
        at += 16 + length
        if body[9] == 0x10:  # a step follows the time; the first record has a version there
            step, position = 0, 10
            for shift in range(0, 64, 7):
                step |= (body[position] & 127) << shift
                position += 1
                if body[position - 1] < 128:
                    break
            size = body[position + 5]
            tag = body[position + 6 : position + 6 + size].decode()
            found.append((tag, step, struct.unpack("<f", body[-4:])[0]))
    return found


def test_the_check_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4


def test_event_files_hold_every_curve(filled: Store, tmp_path: Path) -> None:
    with filled.read() as session:
        assert write_tensorboard(session, "head-count", tmp_path) == 3
        assert write_tensorboard(session, "head-count", tmp_path) == 3  # again: the same files
        jobs = list(job_curves(session, "head-count"))
    files = sorted(tmp_path.rglob("events.out.tfevents.*"))
    assert {file.parent.name for file in files} == {
        "kv_heads=1,peak_lr=0.001,control=True,seed=0",
        "routing_heads=1,kv_heads=1,peak_lr=0.001,seed=0",
        "routing_heads=8,kv_heads=1,peak_lr=0.001,seed=0",
    }
    for job in jobs:
        (file,) = (tmp_path / job.name).iterdir()
        expected = [
            (name.replace(".", "/"), step, math.nan if value is None else value)
            for name, points in job.curves.items()
            for step, value in points
        ]
        told = [s for s in scalars(file) if s[0] != "tail_mean"]
        assert [s[:2] for s in told] == [e[:2] for e in expected]
        assert [s[2] for s in told] == pytest.approx([e[2] for e in expected], rel=1e-6, nan_ok=True)
        assert len(scalars(file)) == len(expected) + (job.state == "finished")
    assert any(value is None for job in jobs for _, value in job.curves["evaluation.loss"])


@pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="needs MLflow")
def test_runs_of_mlflow_hold_every_curve_and_are_written_once(filled: Store, tmp_path: Path) -> None:
    mlflow = importlib.import_module("mlflow")
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    with filled.read() as session:
        assert write_mlflow(session, "head-count", uri) == (3, 0)
        assert write_mlflow(session, "head-count", uri) == (0, 3)
        jobs = {job.id: job for job in job_curves(session, "head-count")}
    client = mlflow.MlflowClient(tracking_uri=uri)
    runs = client.search_runs([client.get_experiment_by_name("head-count").experiment_id])
    assert len(runs) == len(jobs) == 3
    for run in runs:
        job = jobs[run.data.tags["headcount.job"]]
        assert run.info.status == ("FINISHED" if job.state == "finished" else "FAILED")
        assert run.data.metrics.get("tail_mean") == job.tail_mean
        for name, points in job.curves.items():
            told = {(m.step, m.value) for m in client.get_metric_history(run.info.run_id, name)}
            assert told == {(step, value) for step, value in points if value is not None}


@pytest.mark.skipif(importlib.util.find_spec("mlflow") is not None, reason="MLflow is here")
def test_a_missing_mlflow_is_told_with_what_to_install(filled: Store) -> None:
    with filled.read() as session, pytest.raises(UserError, match=r"pip install 'headcount\[mlflow\]'"):
        write_mlflow(session, "head-count", None)
