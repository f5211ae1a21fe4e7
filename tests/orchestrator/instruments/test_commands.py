"""The commands that look at a job's model, by its file and by its job's id; what they store."""

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from homes import write_text
from own_task import write_heads_task
from plans import start_next
from sqlalchemy import select

from headcount.__main__ import cli
from headcount.orchestrator.instruments.commands import evaluate
from headcount.orchestrator.instruments.models import find_model
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import open_store, submit
from headcount.orchestrator.store.models import Artifact, Job, Measurement
from headcount.orchestrator.store.recording import record_events
from headcount.orchestrator.store.transitions import attempt_folder
from headcount.orchestrator.submitting.planning import make_plan
from headcount.sweeps.file.spec import parse_spec
from headcount.trainer.config import job_from_fields
from headcount.trainer.data import open_dataset
from headcount.trainer.errors import UserError
from headcount.trainer.events import to_record
from headcount.trainer.execution import Execution
from headcount.trainer.job_files.model_file import read_model, write_model
from headcount.trainer.loop import train


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Settings, str, str, Path]:
    """A home with one finished job of `mhar` and one queued: settings, their ids, the model's file."""
    home = tmp_path_factory.mktemp("probe")
    settings = Settings(home, f"sqlite:///{home / 'headcount.db'}", home / "artifacts")
    write_text(home / "text")
    text = (
        "name: one\ncontrol: none\nseeds: [0, 1]\n"
        f"job: {{model: {{scale: nano, residual: mhar}}, data: {{text: {home / 'text'}, context: 64}}, "
        "train: {steps: 8, batch_tokens: 256, eval_every: 1, eval_windows: 4}}\n"
    )
    store = open_store(settings)
    plan = make_plan(parse_spec(text, "one.yaml"), settings, store)
    with store.write() as session:
        submit(session, plan, "tester")
        work = start_next(session)
    folder = settings.artifacts / attempt_folder(work.job_id, work.number)
    config, dataset = job_from_fields(work.config, work.seed), open_dataset(work.fingerprint, home)
    records = [to_record(e) for e in train(config, dataset, folder=folder, execution=Execution())]
    with store.write() as session:
        record_events(
            session, work.attempt_id, 0, [*records, {"kind": "ended", "cause": "finished", "message": None}]
        )
    store.close()
    other = next(job.id for job in plan.jobs if job.id != work.job_id)
    return settings, work.job_id, other, folder / "model.safetensors"


def test_a_model_is_found_by_its_file_its_folder_and_its_job(
    trained: tuple[Settings, str, str, Path], tmp_path: Path
) -> None:
    settings, job_id, other, file = trained
    assert find_model(str(file), settings) == find_model(str(file.parent), settings) == file
    assert find_model(job_id[:10], settings) == file
    with pytest.raises(UserError, match=f"job {other[:12]} has no model here: it is queued; its"):
        find_model(other, settings)
    with pytest.raises(UserError, match=r"no file .*nothing\.safetensors"):
        find_model(str(tmp_path / "nothing.safetensors"), settings)
    with pytest.raises(UserError, match="no job 'zz'"):
        find_model("zz", settings)


def test_the_command_tells_every_site_and_writes_json(
    trained: tuple[Settings, str, str, Path], tmp_path: Path
) -> None:
    settings, job_id, _, _ = trained
    environment = {"HEADCOUNT_HOME": str(settings.home), "COLUMNS": "120"}
    out = tmp_path / "probe.json"
    ran = CliRunner().invoke(
        cli,
        ["probe", job_id[:10], "--windows", "6", "--out", str(out)],
        env=environment,
        catch_exceptions=False,
    )
    assert ran.exit_code == 0
    record = json.loads(out.read_text())
    assert [site["site"] for site in record["sites"]] == [1, 2, 3, 4]
    assert record["tokens"] == 6 * 64
    assert f"probe.excess {record['measurements']['probe.excess']:.4f}" in ran.output
    with open_store(settings).read() as session:
        [probe] = session.scalars(select(Job).where(Job.parent_id == job_id, Job.kind == "probe"))
        stored = dict(
            session.execute(
                select(Measurement.name, Measurement.value).where(Measurement.job_id == probe.id)
            ).all()
        )
        key = session.scalar(select(Artifact.key).where(Artifact.job_id == probe.id))
    assert f"stored as probe {probe.id[:12]} of job {job_id[:12]}" in ran.output
    assert (probe.state, stored) == ("finished", record["measurements"])
    assert json.loads((settings.artifacts / (key or "")).read_text()) == record
    for site in record["sites"]:
        assert f"{site['disagreement']:.4f}" in ran.output


def test_a_model_writes_in_the_bytes_of_its_text(trained: tuple[Settings, str, str, Path]) -> None:
    settings, job_id, _, _ = trained
    environment = {"HEADCOUNT_HOME": str(settings.home)}
    asked = ["generate", job_id[:10], "naïve ", "--tokens", "20", "--temperature", "0.5"]
    ran = [CliRunner().invoke(cli, asked, env=environment, catch_exceptions=False) for _ in range(2)]
    assert ran[0].exit_code == 0
    assert ran[0].output == ran[1].output
    assert ran[0].output.startswith("naïve ")
    assert 1 < len(ran[0].output) - len("naïve ") <= 21
    with pytest.raises(UserError, match="7 tokens and 100 more do not fit: the model reads 64 tokens"):
        CliRunner().invoke(cli, [*asked[:3]], env=environment, catch_exceptions=False)


def test_an_error_stands_alone_and_not_behind_the_prompt(
    trained: tuple[Settings, str, str, Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings, _, other, _ = trained
    monkeypatch.setenv("HEADCOUNT_HOME", str(settings.home))
    with pytest.raises(UserError, match="no model here"):
        cli.main(["generate", other[:10], "once"], standalone_mode=False)
    assert capsys.readouterr().out == ""


def test_a_damaged_model_is_refused(trained: tuple[Settings, str, str, Path]) -> None:
    settings, job_id, _, file = trained
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    try:
        with pytest.raises(UserError, match="is missing or damaged"):
            find_model(job_id, settings)
    finally:
        file.write_bytes(content)


@pytest.mark.filterwarnings("ignore")  # lm-eval's and its libraries' own
def test_a_model_is_scored_on_a_task_of_ones_own_and_against_another(
    trained: tuple[Settings, str, str, Path], tmp_path: Path
) -> None:
    settings, job_id, _, file = trained
    tensors, metadata = read_model(file)
    generator = torch.Generator().manual_seed(0)
    tensors["embedding"] = torch.randn(tensors["embedding"].shape, generator=generator)
    write_model(tmp_path / "other.safetensors", tensors, metadata)
    write_heads_task(tmp_path, [0, 1, 0, 1], tmp_path / "cache")
    out = tmp_path / "scores.json"
    asked = ["evaluate", job_id[:10], "--tasks", "heads", "--include", str(tmp_path)]
    ran = CliRunner().invoke(
        cli,
        [
            *asked,
            "--limit",
            "3",
            "--device",
            "cpu",
            "--out",
            str(out),
            "--against",
            str(tmp_path / "other.safetensors"),
        ],
        env={"HEADCOUNT_HOME": str(settings.home), "COLUMNS": "120"},
        catch_exceptions=False,
    )
    assert ran.exit_code == 0
    record = json.loads(out.read_text())
    [figure] = record["figures"]
    scores = record["items"]["heads"]["acc"]
    assert list(scores) == ["0", "1", "2"]
    assert set(scores.values()) <= {0.0, 1.0}
    assert figure["value"] == pytest.approx(sum(scores.values()) / 3)
    assert scores["0"] == scores["2"] != scores["1"]  # it takes one side, whatever the number
    assert f"{figure['value']:.4f}" in ran.output
    other = record["against"]["items"]["heads"]["acc"]
    with open_store(settings).read() as session:
        of_job = select(Measurement.value).join(Job, Job.id == Measurement.job_id)
        stored = of_job.where(Job.parent_id == job_id, Measurement.name == "downstream.heads.acc")
        assert session.scalars(stored).all() == [figure["value"]]  # and none of the file beside
    [difference] = record["differences"]
    assert difference["mean"] == pytest.approx(sum(scores[n] - other[n] for n in scores) / 3)
    assert difference["n"] == 3
    assert f"{difference['mean']:+.4f}" in ran.output


def test_a_folder_of_data_that_is_none_is_told_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for folder, message in (("nowhere", "no such folder"), ("data", "no data set in it; expected each in a")):
        asked = ["0c90fb13eaa1", "--tasks", "hellaswag", "--task-data", str(tmp_path / folder)]
        with pytest.raises(UserError, match=f"evaluate.task_data: .*{folder}: {message}"):
            CliRunner().invoke(evaluate, asked, catch_exceptions=False)
