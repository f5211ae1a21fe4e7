"""The sections `probe` and `evaluate` of a sweep's file."""

import pytest

from headcount.sweeps.file.instruments import Chosen, EvaluateAsked, ProbeAsked
from headcount.sweeps.file.spec import SpecError, parse_spec


def test_what_is_not_said_has_its_default() -> None:
    assert parse_spec("name: s\n", "s.yaml").probe is None
    assert parse_spec("name: s\nprobe: false\nevaluate: []\n", "s.yaml").probe is None
    assert parse_spec("name: s\nprobe: true\n", "s.yaml").probe == ProbeAsked(64, 4, 8, 0, Chosen())
    asked = parse_spec("name: s\nprobe: {windows: 8, seeds: [0]}\n", "s.yaml").probe
    assert asked == ProbeAsked(windows=8, chosen=Chosen(seeds=(0,)))


def test_tasks_are_named_and_chosen_jobs_may_be() -> None:
    text = (
        "name: s\nevaluate: {tasks: [heads, x/y], include: tasks, limit: 5, where: model.routing_heads > 1}\n"
    )
    asked = parse_spec(text, "s.yaml").evaluate
    assert isinstance(asked, EvaluateAsked)
    assert (asked.tasks, asked.include, asked.limit) == (("heads", "x/y"), "tasks", 5)
    assert asked.chosen.where is not None
    assert [asked.chosen.where({"model.routing_heads": h}) for h in (1, 2)] == [False, True]


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("probe: 3", r"s\.yaml:2: probe: got 3; expected true, or settings such as"),
        ("probe: {window: 3}", "probe.window: unknown field; did you mean 'windows'"),
        ("probe: {windows: 1}", "probe.windows: got 1; expected a whole number from 2"),
        ("probe: {where: model.heds == 1}", "probe.where: .*model.heds"),
        ("evaluate: {limit: 3}", "evaluate: lacks tasks"),
        ("evaluate: {tasks: []}", "evaluate.tasks: no task"),
        ("evaluate: {tasks: [a, a]}", r"evaluate.tasks\[1\]: a is listed twice"),
        ("evaluate: {tasks: ['a b']}", r"evaluate.tasks\[0\]: got 'a b'; expected a name"),
        ("evaluate: [lambada]", "evaluate: got a list; expected tasks, such as"),
    ],
)
def test_a_mistake_names_its_place(section: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        parse_spec(f"name: s\n{section}\n", "s.yaml")
