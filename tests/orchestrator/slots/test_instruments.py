"""A slot that looks at a model: what it tells, what it leaves, and what ends it."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from jobs import all_events, small_work
from own_task import write_heads_task

from headcount.orchestrator.slots.slot import STOP_SECONDS, Slot
from headcount.orchestrator.store.recording import Record
from headcount.orchestrator.store.transitions import Work, attempt_folder
from headcount.trainer.data import open_dataset
from headcount.trainer.job_files.files import has_hash
from headcount.trainer.probe.figures import Settings
from headcount.trainer.probe.running import probe_file

PROBE = {"probe.windows": 6, "probe.slices": 4, "probe.draws": 2, "probe.seed": 0}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def work(home: Path) -> tuple[Work, Slot]:
    """A probe of a job that the slot has trained."""
    slot = Slot(str(home), str(home / "artifacts"), False)
    parent = small_work(home, steps=8, eval_every=1)
    parent = replace(parent, config={**parent.config, "model.residual": "mhar"})
    [model] = [r for r in all_events(slot, parent) if r.get("purpose") == "model"]
    key = f"{attempt_folder(parent.job_id, 1)}/model.safetensors"
    child = replace(
        parent,
        attempt_id=2,
        job_id="cd" * 32,
        log=f"{attempt_folder('cd' * 32, 1)}.log",
        kind="probe",
        config={**parent.config, **PROBE},
        model=(key, model["sha256"]),
    )
    return child, slot


def test_a_probe_tells_its_figures_and_leaves_them_in_a_file(work: tuple[Work, Slot], home: Path) -> None:
    child, slot = work
    records = all_events(slot, child)
    assert [record["kind"] for record in records] == ["started", "artifact", "result", "ended"]
    assert (records[-1]["cause"], records[-1]["reusable"]) == ("finished", True)
    assert child.model is not None
    dataset = open_dataset(child.fingerprint, home)
    expected = probe_file(home / "artifacts" / child.model[0], dataset, Settings(6, 4, 2, 0), "cpu")
    known = {name: value for name, value in expected.measurements().items() if value is not None}
    assert records[2]["measurements"] == known
    file = home / "artifacts" / attempt_folder(child.job_id, 1) / records[1]["file"]
    assert has_hash(file, records[1]["sha256"])
    assert json.loads(file.read_text()) == json.loads(json.dumps(expected.to_record()))


def test_what_cannot_be_measured_fails_with_its_reason(work: tuple[Work, Slot]) -> None:
    child, slot = work
    assert child.model is not None
    gone = replace(child, attempt_id=3, model=(child.model[0], "00" * 32))
    [_, ended] = [None, *all_events(slot, gone)][-2:]
    assert (ended["cause"], ended["reusable"]) == ("user_error", False)
    assert ended["message"].endswith("model.safetensors, is missing or damaged")
    uneven = replace(child, attempt_id=4, config={**child.config, "probe.slices": 7})
    assert all_events(slot, uneven)[-1]["message"].startswith("7 slices do not divide the width")


def test_one_that_is_stopped_half_way_ends_with_the_cause_that_it_is_told(
    work: tuple[Work, Slot], home: Path
) -> None:
    child, slot = work
    slow = replace(child, attempt_id=7, config={**child.config, "probe.draws": 100_000})
    slot.start(slow, 0)
    started, stored = time.monotonic(), -1
    slot.stop(7, "cancelled")
    records: list[Record] = []
    while not (records and records[-1]["kind"] == "ended"):
        first, new = slot.events(7, stored, 30)
        records += new
        stored = first + len(new) - 1
    assert [record["kind"] for record in records] == ["started", "ended"]
    ended = records[-1]
    assert (ended["cause"], ended["message"], ended["reusable"]) == ("cancelled", None, False)
    assert time.monotonic() - started < STOP_SECONDS / 2


@pytest.mark.filterwarnings("ignore")  # lm-eval's and its libraries' own
def test_tasks_are_told_one_by_one_and_have_to_be_those_that_were_asked(
    work: tuple[Work, Slot], tmp_path: Path
) -> None:
    child, slot = work
    write_heads_task(tmp_path, [0, 0, 0], tmp_path.parent / "cache")
    from headcount.trainer.downstream.task_files import tasks_digest

    asked = {
        "evaluate.tasks": ["heads"],
        "evaluate.include": str(tmp_path),
        "evaluate.include_sha256": tasks_digest(tmp_path),
    }
    config = {n: v for n, v in child.config.items() if not n.startswith("probe.")} | asked
    evaluation = replace(child, attempt_id=5, kind="evaluate", config=config)
    records = all_events(slot, evaluation)
    kinds = [record["kind"] for record in records]
    assert kinds == ["started", "evaluating", "artifact", "result", "ended"], records[-1]
    accuracy = records[3]["measurements"]["downstream.heads.acc"]
    assert accuracy in (0.0, 1.0)  # one text, three times
    assert records[2]["file"] == "items.json"
    task = tmp_path / "heads.yaml"
    task.write_text(task.read_text().replace("{{prompt}}", "{{prompt}}!"))
    ended = all_events(slot, replace(evaluation, attempt_id=6))[-1]
    assert "holds other files than when it was submitted" in ended["message"]
