"""`headcount run` and its companions against a real Ray cluster, with parts of it killed on the way."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from homes import Home, ended, wait_for

from headcount.orchestrator.cluster import local_ray
from headcount.trainer.tail import tail_mean

STEPS = 120
"""Some seconds a job, so that there is time to kill something."""

ONE_JOB = """
name: {name}
control: none
job:
  model: {{scale: nano, residual: mhar}}
  data: {{text: {text}, context: 64}}
  train: {{steps: {steps}, batch_tokens: 256, eval_every: 5, eval_windows: 4}}
axes:
  model.routing_heads: [{heads}]
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of commands that use one Ray cluster for the whole module."""
    folder = tmp_path_factory.mktemp("ray")
    with local_ray.hold(folder) as held:
        ray = local_ray.start(folder)
        yield {**ray.environment(), "RAY_ADDRESS": ray.address}
        held.close()
        local_ray.stop(folder)


@pytest.fixture
def home(tmp_path: Path, cluster: dict[str, str]) -> Iterator[Home]:
    made = Home(tmp_path / "home", cluster)
    yield made
    made.stop_all()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, cluster: dict[str, str]) -> Home:
    """A home whose sweep was trained with nothing killed."""
    made = Home(tmp_path_factory.mktemp("undisturbed") / "home", cluster)
    done = made.headcount("run", made.sweep(STEPS))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "small: 3 jobs, 3 new, 0 known" in done.stdout
    assert re.search(r"small: 3 finished, in \d", done.stdout)
    return made


def test_a_sweep_is_trained_and_stored(undisturbed: Home) -> None:
    attempts = undisturbed.rows("SELECT number, cause, start_step, node, environment FROM attempt")
    assert [row[:3] for row in attempts] == [(1, "finished", 0)] * 3
    assert all(node and "threads" in environment for *_, node, environment in attempts)
    for job_id, mean in undisturbed.tail_means().items():
        losses = undisturbed.rows(
            f"SELECT step, loss FROM evaluation WHERE job_id = '{job_id}' ORDER BY step"
        )
        assert [step for step, _ in losses] == list(range(0, STEPS + 1, 5))
        assert mean == tail_mean(losses, STEPS)
    assert len(undisturbed.rows("SELECT key FROM artifact WHERE kind = 'checkpoint'")) == 3


def test_run_again_trains_nothing(undisturbed: Home) -> None:
    before = undisturbed.rows("SELECT * FROM attempt")
    events = undisturbed.rows("SELECT count(*) FROM event")
    done = undisturbed.typed("run", "small")
    assert done.returncode == 0, done.stderr
    assert "0 new, 3 known" in done.stdout
    assert undisturbed.rows("SELECT * FROM attempt") == before
    assert undisturbed.rows("SELECT count(*) FROM event") == events


def test_what_the_commands_show_of_it(undisturbed: Home) -> None:
    assert "3 finished" in undisturbed.typed("status").stdout
    jobs = undisturbed.typed("jobs", "small").stdout
    for job_id, mean in undisturbed.tail_means().items():
        [line] = [line for line in jobs.splitlines() if line.startswith(job_id[:12])]
        assert f"{mean:.4f}" in line
    plan = undisturbed.typed("plan", "small")
    assert "In the store: 0 new, 3 known, 0 shared" in plan.stdout


def test_the_doctor_looks_at_every_node_and_a_replay_is_equal(undisturbed: Home) -> None:
    found = undisturbed.headcount("doctor")
    assert found.returncode == 0, found.stdout + found.stderr
    assert re.search(r"^ok +Ray: [\d.]+ at [\d.:]+, 1 nodes$", found.stdout, re.MULTILINE)
    assert re.search(r"^ok +node [\d.]+: \S+, Python 3\.\d+\.\d+, headcount ", found.stdout, re.MULTILINE)
    job = min(undisturbed.tail_means())
    again = undisturbed.headcount("replay", job[:10])
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith(f"job {job[:12]}: bitwise equal\n  25 of 25 evaluations are equal")


def test_a_killed_slot_and_a_killed_scheduler_are_replaced_by_a_run_that_goes_on(
    home: Home, undisturbed: Home
) -> None:
    run = home.start("run", home.sweep(STEPS))
    wait_for(lambda: home.running(step=10))
    scheduler = home.scheduler_process()
    os.kill(scheduler, signal.SIGSTOP)  # it is the next one that finds an attempt without a slot
    os.kill(wait_for(home.slot_processes)[0], signal.SIGKILL)
    os.kill(scheduler, signal.SIGKILL)
    output, _ = ended(run, 120)
    assert run.returncode == 0, output
    assert home.rows("SELECT cause, count(*) FROM attempt GROUP BY cause ORDER BY cause") == [
        ("finished", 3),
        ("slot_lost", 1),
    ]
    assert home.rows("SELECT epoch FROM lease") == [(2,)]
    assert home.tail_means() == undisturbed.tail_means()


def test_slots_outlive_a_killed_scheduler_and_are_adopted(home: Home, undisturbed: Home) -> None:
    file = home.sweep(STEPS)
    run = home.start("run", file)
    running = wait_for(lambda: home.running(step=10))
    trainers = home.slot_processes()
    run.kill()
    os.kill(home.scheduler_process(), signal.SIGKILL)
    run.wait()
    again = home.headcount("run", file)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "0 new, 3 known" in again.stdout
    assert home.rows("SELECT number, cause FROM attempt") == [(1, "finished")] * 3
    assert {attempt for attempt, *_ in running} <= {a for (a,) in home.rows("SELECT id FROM attempt")}
    assert trainers
    assert home.tail_means() == undisturbed.tail_means()
    assert "adopted" in (home.folder / "scheduler.log").read_text()


def test_ctrl_c_stops_cleanly_and_run_goes_on_from_the_checkpoints(home: Home, undisturbed: Home) -> None:
    file = home.sweep(STEPS)
    run = home.start("run", file)
    wait_for(lambda: home.running(step=10))
    run.send_signal(signal.SIGINT)
    output, _ = ended(run, 60)
    assert run.returncode == 130
    assert f"go on with: headcount run {file}" in output
    assert "Traceback" not in output
    assert not home.slot_processes()
    stopped = home.rows("SELECT cause FROM attempt WHERE cause != 'finished'")
    assert stopped
    assert set(stopped) == {("preempted",)}
    assert home.rows("SELECT DISTINCT state FROM job ORDER BY 1") in (
        [("queued",)],
        [("finished",), ("queued",)],
    )
    stopped_at = home.rows(
        "SELECT job.id, job.step FROM job JOIN attempt ON job_id = job.id "
        "WHERE cause = 'preempted' ORDER BY 1"
    )
    assert max(step for _, step in stopped_at) >= 10
    again = home.headcount("run", file)
    assert again.returncode == 0, again.stdout + again.stderr
    assert home.rows("SELECT job_id, start_step FROM attempt WHERE number = 2 ORDER BY 1") == stopped_at
    assert home.tail_means() == undisturbed.tail_means()


def test_one_scheduler_serves_two_runs_and_cancelling_ends_both(home: Home) -> None:
    file = home.sweep(steps=100_000)
    run = home.start("run", file)
    wait_for(lambda: home.running(step=1))
    second = home.typed("scheduler")
    assert second.returncode == 2
    assert f"another scheduler is at work: process {home.scheduler_process()} on" in second.stderr
    follower = home.start("run", file)
    assert follower.stdout is not None
    assert "3 known" in follower.stdout.readline()  # it follows from now on
    cancelled = home.typed("cancel", "small")
    assert cancelled.returncode == 0
    output, _ = ended(run, 60)
    assert run.returncode == 3, output
    assert follower.wait(60) == 3
    assert home.rows("SELECT state, count(*) FROM job GROUP BY state") == [("cancelled", 3)]
    assert home.rows("SELECT DISTINCT cause FROM attempt") == [("cancelled",)]
    assert not home.slot_processes()
    assert home.rows("SELECT epoch FROM lease") == [(1,)]


def test_a_failed_job_says_why(home: Home, undisturbed: Home) -> None:
    """One job finds its data gone, and another something that no one has foreseen."""
    ids = sorted(undisturbed.tail_means())
    job = home.folder / "artifacts" / "jobs" / ids[0][:2] / ids[0]
    broken = job / "attempt-1" / "checkpoints" / "step-00000005.json"
    broken.mkdir(parents=True)
    done = home.headcount("run", home.sweep(STEPS))
    assert done.returncode == 3
    assert "2 finished, 1 failed" in done.stdout
    assert f"failed {ids[0][:8]}" in done.stdout
    logs = home.typed("logs", ids[0][:6])
    assert "user_error" in logs.stdout
    assert "Traceback (most recent call last)" in logs.stdout
    assert "IsADirectoryError" in logs.stdout or "PermissionError" in logs.stdout
    assert home.rows("SELECT count(*) FROM attempt WHERE job_id = '" + ids[0] + "'") == [(1,)]


def test_a_job_whose_data_is_gone_is_not_trained(home: Home) -> None:
    file = home.sweep(STEPS)
    assert home.typed("plan", file).returncode == 0
    [data] = [p for p in (home.folder / "data").iterdir() if (p / "manifest.json").exists()]
    run = home.start("run", file)
    wait_for(lambda: home.rows("SELECT id FROM job"))
    (data / "train.bin").unlink()
    output, _ = ended(run, 120)
    assert run.returncode == 3, output
    assert home.rows("SELECT DISTINCT cause FROM attempt") == [("data_differs",)]
    assert "train.bin is missing" in output


def test_a_search_goes_on_when_its_scheduler_is_killed(home: Home) -> None:
    search = "search: {method: tpe, trials: 3, parallel: 1, fresh_seeds: 1}\n"
    run = home.start("run", home.sweep(40, search))
    wait_for(lambda: home.rows("SELECT number FROM trial WHERE state = 'complete'"))
    os.kill(home.scheduler_process(), signal.SIGKILL)
    output, _ = ended(run, 120)
    assert run.returncode == 0, output
    assert home.rows("SELECT number, state FROM trial ORDER BY number") == [(n, "complete") for n in range(3)]
    # of the cells that were suggested, of their one control, and of the best of them on a fresh seed
    [(cells,)] = home.rows("SELECT count(DISTINCT cell_id) FROM trial")
    assert home.rows("SELECT cause, count(*) FROM attempt GROUP BY cause") == [("finished", cells + 1 + 2)]
    assert "Search by tpe: 3 of 3 trials" in output
    assert re.search(r"On 1 fresh seed: loss \d\.\d{4}, delta [+-]", output)


def _one_job(home: Home, name: str, heads: int, steps: int) -> str:
    """The file of a sweep with a job of its own and no control."""
    home.sweep(steps)  # writes the text
    file = home.folder.parent / f"{name}.yaml"
    text = home.folder.parent / "text"
    file.write_text(ONE_JOB.format(name=name, text=text, steps=steps, heads=heads))
    return str(file)


def test_a_run_that_ends_leaves_to_another_what_that_one_follows(home: Home) -> None:
    first = home.start("run", _one_job(home, "first", 1, steps=200))
    wait_for(lambda: home.rows("SELECT id FROM sweep"))
    second = home.start("run", _one_job(home, "second", 2, steps=300))
    output, _ = ended(first, 60)
    assert first.returncode == 0, output
    output, _ = ended(second, 60)
    assert second.returncode == 0, output
    assert home.rows("SELECT epoch, number, cause, start_step FROM attempt") == [(1, 1, "finished", 0)] * 2
    assert home.rows("SELECT epoch FROM lease") == [(2,)]
    assert not home.slot_processes()


@pytest.mark.drill
def test_what_another_run_was_to_go_on_with_is_stopped_when_that_one_dies(home: Home) -> None:
    first = home.start("run", _one_job(home, "first", 1, steps=100_000))
    wait_for(lambda: home.running(step=1))
    second = home.start("run", "first")
    assert second.stdout is not None
    assert "1 known" in second.stdout.readline()
    assert "1 running of 1" in second.stdout.readline()  # it follows from now on
    second.send_signal(signal.SIGSTOP)
    first.send_signal(signal.SIGINT)
    wait_for(lambda: "slots go on" in (home.folder / "scheduler.log").read_text())
    second.kill()
    output, _ = ended(first, 60)
    assert first.returncode == 130, output
    assert "1 job left; go on with" in output
    assert not home.slot_processes()
    assert home.rows("SELECT state FROM job") == [("queued",)]
    assert home.rows("SELECT cause FROM attempt") == [("preempted",)]
