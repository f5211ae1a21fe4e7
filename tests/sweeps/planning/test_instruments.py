"""Which jobs a plan's instruments look at, and what their ids are made of."""

from pathlib import Path

import pytest
from plans import SWEEP, make_plan

from headcount.sweeps.file.document import SpecError
from headcount.sweeps.file.spec import parse_spec
from headcount.sweeps.planning.instruments import planned_instruments
from headcount.sweeps.planning.plan import Plan


def chosen(planned: Plan) -> list[tuple[str, str, int]]:
    jobs = {job.id: job for job in planned.jobs}
    return [
        (i.kind, jobs[i.parent_id].config.model.residual, jobs[i.parent_id].config.seed)
        for i in planned.instruments
    ]


def test_probes_look_at_streams_that_they_read_and_evaluations_at_all() -> None:
    assert make_plan().instruments == ()
    found = chosen(make_plan(SWEEP + "probe: true\nevaluate: {tasks: [heads]}\n"))
    assert found.count(("probe", "mhar", 0)) == found.count(("probe", "mhar", 1)) == 2
    assert sum(kind == "probe" for kind, _, _ in found) == 4
    assert sum(kind == "evaluate" for kind, _, _ in found) == len(make_plan().jobs) == 6


def test_where_and_seeds_choose() -> None:
    text = SWEEP + "probe: {where: model.routing_heads == 2, seeds: [1]}\n"
    planned = make_plan(text)
    [probe] = planned.instruments
    parent = next(job for job in planned.jobs if job.id == probe.parent_id)
    assert (parent.config.model.routing_heads, parent.config.seed) == (2, 1)


def test_an_id_is_made_of_the_parent_and_of_what_is_measured(tmp_path: Path) -> None:
    def ids(section: str) -> set[str]:
        spec = parse_spec(SWEEP + section, "tiny.yaml", tmp_path)
        return {instrument.id for instrument in planned_instruments(spec, make_plan().jobs)}

    assert ids("probe: true\n") == ids("probe: {windows: 64}\n")  # a default that is written out
    assert not ids("probe: true\n") & ids("probe: {windows: 63}\n")
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "heads.yaml").write_text("task: heads\n")
    first, second = (f"evaluate: {{tasks: [heads], include: {folder}}}\n" for folder in ("one", "two"))
    assert ids(first) == ids(second)  # what lies there counts, not where
    (tmp_path / "two" / "heads.yaml").write_text("task: heads # others\n")
    assert not ids(first) & ids(second)
    (tmp_path / "data" / "EleutherAI" / "lambada_openai").mkdir(parents=True)
    rows = tmp_path / "data" / "EleutherAI" / "lambada_openai" / "test.jsonl"
    rows.write_text('{"text": "the depth"}')
    asked = "evaluate: {tasks: [lambada_openai], task_data: data}\n"
    before = ids(asked)
    rows.write_text('{"text": "the width"}')
    assert not ids(asked) & before


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("probe: {slices: 7}", "tiny.yaml:9: probe.slices: 7 does not divide the width 64"),
        (
            "probe: {seeds: [5]}",
            "probe: chooses no job of this sweep whose residual stream it reads: delta, haares, mhar",
        ),
        ("evaluate: {tasks: [a], include: nowhere}", "evaluate.include: .*nowhere: no such folder"),
        ("evaluate: {tasks: [a], task_data: nowhere}", "evaluate.task_data: .*nowhere: no such folder"),
    ],
)
def test_what_cannot_be_measured_is_told_while_planning(section: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        make_plan(SWEEP + section + "\n")
