"""From a file to a plan: where its text lies, what an edit changes, what the store knows of like jobs."""

from pathlib import Path

import pytest
from homes import write_text
from plans import SWEEP, finish, make_plan, start_next, submit_text
from sqlalchemy import select

from headcount.orchestrator.following.live import seconds_of
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store, submit
from headcount.orchestrator.store.difference import difference
from headcount.orchestrator.store.journal import now
from headcount.orchestrator.store.models import Attempt, Job, Measurement
from headcount.orchestrator.submitting.history import read_history
from headcount.orchestrator.submitting.planning import difference_lines, is_file, read_spec
from headcount.orchestrator.submitting.planning import make_plan as make_real_plan
from headcount.trainer.errors import UserError

RELATIVE = """
name: near
job:
  model: {scale: nano}
  data: {text: [words/*.txt], context: 64}
  train: {steps: 20, batch_tokens: 256, eval_every: 2}
"""


def test_relative_text_lies_beside_the_file_from_wherever_it_is_read(store: Store, tmp_path: Path) -> None:
    settings = Settings(tmp_path / "home", "", tmp_path)
    write_text(tmp_path / "words")
    file = tmp_path / "near.yaml"
    file.write_text(RELATIVE)
    by_path = make_real_plan(read_spec(str(file), store), settings, store)
    with store.write() as session:
        submit(session, by_path, "tester")
    by_name = make_real_plan(read_spec("near", store), settings, store)
    assert by_name.jobs == by_path.jobs
    assert by_path.jobs[0].config.data.text == ("words/*.txt",)
    file.write_text(RELATIVE.replace("words/*", "wrods/*"))
    with pytest.raises(UserError) as caught:
        make_real_plan(read_spec(str(file), store), settings, store)
    assert str(caught.value) == (
        f"{file}:5: job.data.text: {tmp_path}/wrods/*.txt is a pattern that matches no file; "
        "expected UTF-8 text files"
    )


def test_a_name_is_a_sweep_that_was_submitted_or_else_a_ready_made_study(store: Store) -> None:
    assert read_spec("main-loss", store).seeds == (0, 1, 2)
    assert read_spec("main-loss", store, small=True).name == "main-loss-small"
    with store.write() as session:
        submit(session, make_plan(SWEEP.replace("name: tiny", "name: main-loss")), "tester")
    assert read_spec("main-loss", store).seeds == (0, 1)
    with pytest.raises(UserError, match="main-loss:2: has no small variant"):
        read_spec("main-loss", store, small=True)
    with pytest.raises(UserError, match="no sweep or study 'mian-loss'; did you mean 'main-loss'"):
        read_spec("mian-loss", store)


def test_an_edit_is_told_in_lines(store: Store) -> None:
    submit_text(store)
    edited = SWEEP.replace("[1, 2]", "[2, 4]").replace("[0, 1]", "[0]") + "priority: 3\non_failure: stop\n"
    edited = edited.replace("steps: 40", "steps: 80")
    with store.read() as session:
        same = difference(session, make_plan())
        found = difference(session, make_plan(edited))
    assert same is not None
    assert found is not None
    assert list(difference_lines(same)) == []
    assert list(difference_lines(found)) == [
        "Another file than was submitted: 1 cell added, 1 removed, 2 kept",
        "  + routing_heads=4",
        "  - routing_heads=1",
        "  - seeds 1",
        "  changed: on_failure, priority, train.steps",
    ]


def test_what_was_measured_on_this_kind_of_device_is_found(store: Store) -> None:
    submit_text(store)
    with store.write() as session:
        for seconds, device in ((10.0, "cpu"), (30.0, "cpu"), (1.0, "tpu")):
            work = start_next(session)
            finish(session, work)
            attempt = session.get_one(Attempt, work.attempt_id)
            attempt.environment = {"device": device, "hardware": f"a {device}"}
            attempt.started = now().replace(year=2025, microsecond=0)
            attempt.ended = attempt.started.fromtimestamp(
                attempt.started.timestamp() + seconds, attempt.started.tzinfo
            )
            session.add(Measurement(job_id=work.job_id, name="peak_memory_bytes", value=seconds * 2**20))
    plan = make_plan()
    with store.read() as session:
        history = read_history(session, plan, slots=3)
        finished = dict(session.execute(select(Job.id, Job.tail_mean).where(Job.state == "finished")).all())
    assert (history.device, history.slots, history.hardware) == ("cpu", 3, "a cpu")
    assert [(job.seconds, job.peak_memory) for job in history.jobs] == [
        (30.0, 30 * 2**20),
        (10.0, 10 * 2**20),
    ]
    assert history.results == finished
    assert len(finished) == 3


def test_the_noise_of_deltas_is_pooled_over_cells(store: Store) -> None:
    submit_text(store)
    plan = make_plan()
    with store.write() as session:
        # deltas by cell: 0.3 and 0.1 (variance 0.02), 0.0 and 0.4 (variance 0.08)
        deltas = {0: {0: 0.3, 1: 0.1}, 1: {0: 0.0, 1: 0.4}, 2: {0: 0.0, 1: 0.0}}
        for job in plan.jobs:
            row = session.get_one(Job, job.id)
            row.state, row.tail_mean = "finished", 3.0 + deltas[job.cell][job.config.seed]
    with store.read() as session:
        history = read_history(session, plan)
    assert history.delta_sd == pytest.approx(0.05**0.5)
    assert history.delta_cells == 2


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("8m", 480), ("1.5h", 5400), ("2d", 172_800)])
def test_a_time_has_a_unit(text: str, seconds: float) -> None:
    assert seconds_of(text, "--stop-after") == seconds


@pytest.mark.parametrize("text", ["8", "m", "0s", "-3m", "8 minutes", "1e3s", ""])
def test_another_time_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"--stop-after .*expected a time such as 90s, 8m, 2h or 30d"):
        seconds_of(text, "--stop-after")


def test_a_name_is_no_file() -> None:
    assert [is_file(text) for text in ("a.yaml", "a/b", "head-count")] == [True, True, False]
