"""A job trained again: equal bit for bit, also where it was trained in several stretches, or told apart."""

from dataclasses import replace
from pathlib import Path

import pytest
from homes import write_text
from plans import start_next, submit_text
from sqlalchemy import select

from headcount.api.results import ablation_table, paired_statistics
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store, submit
from headcount.orchestrator.store.models import Attempt, Measurement
from headcount.orchestrator.store.recording import record_events
from headcount.orchestrator.submitting.planning import make_plan
from headcount.orchestrator.upkeep.replay import (
    Record,
    Stretch,
    Verdict,
    keep,
    read_record,
    replay,
    stretches,
)
from headcount.sweeps.file.spec import parse_spec
from headcount.trainer.config import job_from_fields
from headcount.trainer.data import open_dataset
from headcount.trainer.errors import UserError
from headcount.trainer.events import Event, Result, to_record
from headcount.trainer.execution import Execution
from headcount.trainer.loop import train

STEPS = 16


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Settings, str, str]:
    """A job that was stopped at step 6 and went on with half the micro-batch; its settings, store and id."""
    folder = tmp_path_factory.mktemp("replay")
    settings = Settings(folder, f"sqlite:///{folder / 'headcount.db'}", folder / "artifacts")
    from headcount.orchestrator.store import open_store

    write_text(folder / "text")
    store = open_store(settings)
    text = (
        f"name: one\njob: {{model: {{scale: nano}}, data: {{text: {folder / 'text'}, context: 64}}, "
        f"train: {{steps: {STEPS}, batch_tokens: 256, eval_every: 2, eval_windows: 4}}}}\ncontrol: none\n"
    )
    with store.write() as session:
        submit(session, make_plan(parse_spec(text, "one.yaml"), settings, store), "tester")
        work = start_next(session)
    config, dataset = job_from_fields(work.config, work.seed), open_dataset(work.fingerprint, settings.home)
    for part, micro_batch in enumerate((4, 2)):
        asked = iter(range(6))
        events = train(
            config,
            dataset,
            folder=folder / "job",
            execution=Execution(micro_batch=micro_batch),
            stop=(lambda asked=asked: next(asked, None) is None) if part == 0 else (lambda: False),
        )
        records = [to_record(event) for event in events]
        ending = {"kind": "ended", "cause": "finished" if part else "preempted", "message": None}
        with store.write() as session:
            record_events(session, work.attempt_id, 0, [*records, ending])
            if part == 0:
                work = start_next(session)
    store.close()
    return settings, settings.database_url, work.job_id


def _record(trained: tuple[Settings, str, str]) -> tuple[Settings, Record]:
    from headcount.orchestrator.store import open_store

    settings, url, job = trained
    store = open_store(url)
    try:
        return settings, read_record(store, job[:8])
    finally:
        store.close()


def _replay(settings: Settings, record: Record, tolerance: float = 0.005) -> tuple[Verdict, list[Event]]:
    told: list[Event] = []
    return replay(record, settings, "cpu", told.append, tolerance), told


def test_each_range_of_steps_is_trained_with_its_micro_batch_and_is_equal(
    trained: tuple[Settings, str, str],
) -> None:
    settings, record = _record(trained)
    assert [(s.start, s.environment["micro_batch"]) for s in record.stretches] == [(0, 4), (6, 2)]
    verdict, told = _replay(settings, record)
    assert verdict.outcome == "bitwise equal", verdict.lines
    assert verdict.lines[0] == "9 of 9 evaluations are equal bit for bit"
    assert isinstance(told[-1], Result)
    assert list(settings.home.glob("replay-*")) == []


def test_a_data_set_that_is_not_here_is_named(trained: tuple[Settings, str, str], tmp_path: Path) -> None:
    settings, record = _record(trained)
    config = replace(record.config, data=replace(record.config.data, source="letters", text=()))
    with pytest.raises(UserError, match="trained on 'letters', which is not here: no data set in"):
        _replay(replace(settings, home=tmp_path), replace(record, config=config))


def test_another_execution_is_told_apart_with_what_differs(trained: tuple[Settings, str, str]) -> None:
    settings, record = _record(trained)
    alone = Stretch(0, {**record.stretches[0].environment, "torch": "1.0"})
    verdict, _ = _replay(settings, replace(record, stretches=(alone,)))
    assert verdict.outcome == "within tolerance", verdict.lines
    assert verdict.lines[0].startswith(("4 of 9", "5 of 9", "6 of 9"))
    assert any(line.startswith("environment from step 0: torch was 1.0, is ") for line in verdict.lines)
    strict, _ = _replay(settings, replace(record, stretches=(alone,)), tolerance=0.0)
    assert strict.outcome == "different"


def test_what_the_same_seed_comes_to_again_is_kept_for_the_noise_floor(
    trained: tuple[Settings, str, str],
) -> None:
    from headcount.orchestrator.store import open_store

    settings, record = _record(trained)
    store = open_store(settings)
    for micro_batch in (None, 4):
        keep(store, record, replay(record, settings, "cpu", lambda _: None, 1.0, micro_batch), micro_batch)
    with store.read() as session:
        noise = paired_statistics(ablation_table(session, "one")).noise
        again = session.scalar(select(Measurement.value).where(Measurement.name == "repeat.micro_batch"))
    assert (noise.repeated_sd, noise.repeated_jobs, noise.micro_batch_jobs) == (0.0, 1, 1)
    assert again
    assert noise.micro_batch_sd == pytest.approx(abs(again) / 2**0.5)
    with pytest.raises(UserError, match="one of the two did not finish"):
        keep(store, record, Verdict("different", ()), None)
    store.close()


def test_another_configuration_and_numerics_are_named(trained: tuple[Settings, str, str]) -> None:
    settings, record = _record(trained)
    faster = replace(record.config, train=replace(record.config.train, peak_lr=0.03))
    verdict, _ = _replay(settings, replace(record, config=faster))
    assert verdict.outcome == "different"
    assert "config: the stored fields are another job to this Headcount" in verdict.lines
    older, _ = _replay(settings, replace(record, numerics=0))
    assert any(line.startswith("numerics: 0 then, ") for line in older.lines)


def test_an_attempt_overrides_what_an_earlier_one_trained_beyond_its_start() -> None:
    attempts = [
        Attempt(start_step=start, environment={"micro_batch": size} if size else None)
        for start, size in ((0, 8), (40, 4), (None, None), (20, 2))
    ]
    assert [(s.start, s.environment["micro_batch"]) for s in stretches(attempts)] == [(0, 8), (20, 2)]


def test_only_a_job_with_a_result_is_replayed(store: Store, tmp_path: Path) -> None:
    submit_text(store)
    with store.write() as session:
        work = start_next(session)
    with pytest.raises(UserError, match="is running; only a training job with a result can be replayed"):
        read_record(store, work.job_id)
