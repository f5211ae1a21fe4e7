"""What a sweep adds to itself: how its file says so, and one clear error for what it cannot mean."""

from typing import Any

import pytest

from headcount.sweeps.file.adaptive import Range, Search, SeedRule
from headcount.sweeps.file.spec import SpecError, SweepSpec, parse_spec

RATES = "train.peak_lr: {low: 1e-4, high: 1e-2, log: true}"


def spec(text: str) -> SweepSpec:
    return parse_spec(f"name: a\n{text}\n", "sweep.yaml")


def test_a_search_over_lists_and_ranges() -> None:
    read = spec(
        f"axes: {{model.kv_heads: [1, 2], {RATES}, train.warmup_steps: {{low: 1, high: 9}}}}\n"
        "search: {method: tpe, trials: 40}"
    )
    assert read.search == Search("tpe", 40, parallel=4, seed=0, objective="loss", prune=False, fresh_seeds=3)
    assert read.axes == {
        "model.kv_heads": (1, 2),
        "train.peak_lr": (1e-4, 1e-2),
        "train.warmup_steps": (1, 9),
    }
    assert read.ranges == {
        "train.peak_lr": Range(1e-4, 1e-2, log=True),
        "train.warmup_steps": Range(1, 9, log=False),
    }
    whole = spec(
        f"axes: {{{RATES}}}\nsearch: {{method: gp, trials: 9, parallel: 2, seed: 5, objective: delta, "
        "prune: true, fresh_seeds: 0}"
    )
    assert whole.search == Search("gp", 9, 2, 5, "delta", True, 0)
    assert spec("search: grid").search is None
    assert spec("search: grid").is_adaptive is False


def test_seeds_by_a_rule_and_a_refined_axis() -> None:
    rule = spec("seeds: {start: 3, max: 10, half_width: 0.005}")
    assert (rule.seeds, rule.seed_rule) == ((0, 1, 2), SeedRule(3, 10, 0.005))
    refined = spec("axes: {train.peak_lr: [1e-4, 1e-3, 1e-2]}\nrefine: train.peak_lr")
    assert refined.refine == "train.peak_lr"
    assert rule.is_adaptive
    assert refined.is_adaptive


@pytest.mark.parametrize(
    ("span", "value", "clipped"),
    [
        (Range(1e-4, 1e-2), 0.00123456, 0.001235),
        (Range(1.00004e-4, 1e-2), 1.00004e-4, 1.00004e-4),
        (Range(1, 9), 7, 7),
    ],
)
def test_a_suggested_value_has_four_digits_within_its_range(span: Range, value: Any, clipped: Any) -> None:
    assert span.clipped(value) == clipped
    assert type(span.clipped(value)) is type(clipped)


BAD = [
    # ranges
    ("axes: {train.peak_lr: {low: 1}}", "2: axes.train.peak_lr: lacks high; expected low and high"),
    (
        "axes: {model.residual: {low: a, high: b}}",
        "2: axes.model.residual: a range is of numbers; list the values of this field",
    ),
    (
        "axes: {train.peak_lr: {low: 1, high: 1}}",
        "2: axes.train.peak_lr.high: got 1.0, which is not above low, 1.0",
    ),
    (
        "axes: {train.weight_decay: {low: 0, high: 1, log: true}}",
        "2: axes.train.weight_decay.low: got 0.0; expected a number above 0, since log is true",
    ),
    (
        "axes: {train.weight_decay: {low: 0, high: 1, log: 1}}",
        "2: axes.train.weight_decay.log: got 1; expected true or false",
    ),
    (
        "axes: {train: {peak_lr: {low: 1e-4, high: 1e-2}}}",
        "2: axes.train.peak_lr: a range is for a search; add a line such as 'search: {method: tpe",
    ),
    # the search
    ("search: tpe", "2: search: got 'tpe'; expected grid, or a search such as {method: tpe, trials: 40}"),
    ("search: {method: tpe}", "2: search: lacks trials; expected method and trials, as in {method: tpe"),
    (
        "search: {method: bohb, trials: 9}",
        "2: search.method: got 'bohb'; expected one of tpe, random, gp, cmaes",
    ),
    (
        "search: {method: tpe, trials: 9000}",
        "2: search.trials: got 9000; expected a whole number from 1 to 2000",
    ),
    ("search: {method: tpe, trails: 9}", "2: search.trails: unknown field; did you mean 'trials'?"),
    ("search: {method: tpe, trials: 9}", "2: search: there is no axis to search; add one under axes"),
    (
        "axes: {data.context: [64, 128]}\nsearch: {method: tpe, trials: 9}",
        "2: axes.data.context: a search compares losses, which are of one text alone",
    ),
    (
        f"axes: {{{RATES}}}\nsearch: {{method: cmaes, trials: 9}}",
        "3: search: cmaes searches two or more ranges, and no lists; take tpe or gp",
    ),
    (
        f"axes: {{{RATES}}}\ncontrol: none\nsearch: {{method: tpe, trials: 9, objective: delta}}",
        "4: search: a delta needs controls; take objective: loss",
    ),
    (
        "axes: {model.kv_heads: [1, 2, 4]}\nsearch: {method: tpe, trials: 9}\n"
        "analysis: {axis: model.kv_heads, ends: [1, 4], middle: [2]}",
        "4: analysis: a search chooses cells by what it saw, which no fixed contrast survives",
    ),
    # seeds by a rule
    ("seeds: {start: 3, max: 10}", "2: seeds: lacks half_width; expected start, max and half_width"),
    (
        "seeds: {start: 1, max: 10, half_width: 1}",
        "2: seeds.start: got 1; expected a whole number from 2 to 2147483647",
    ),
    (
        "seeds: {start: 5, max: 4, half_width: 1}",
        "2: seeds.max: got 4; expected a whole number from 5 to 2147483647",
    ),
    (
        "seeds: {start: 3, max: 9, half_width: 1}\ncontrol: none",
        "2: seeds: half_width is a delta's: it needs controls; list the seeds",
    ),
    # refined values
    ("refine: [train.peak_lr]", "2: refine: got a list; expected the name of an axis, such as train.peak_lr"),
    ("refine: train.peek_lr", "2: refine: unknown field 'train.peek_lr'; did you mean 'train.peak_lr'?"),
    ("refine: train.peak_lr", "2: refine: 'train.peak_lr' is not an axis of this sweep; list its values"),
    (
        "axes: {model.kv_heads: [1, 2, 4]}\nrefine: model.kv_heads",
        "3: refine: model.kv_heads has no values between those listed: it takes whole numbers or names",
    ),
    (
        "axes: {train.peak_lr: [1e-4, 1e-3]}\nrefine: train.peak_lr",
        "3: refine: train.peak_lr needs three listed values above 0 or more, for one to lie inside",
    ),
    # one of them a sweep
    (
        "axes: {train.peak_lr: [1e-4, 1e-3, 1e-2]}\nrefine: train.peak_lr\n"
        "seeds: {start: 3, max: 9, half_width: 1}",
        "4: seeds: one of these a sweep: a search, refined values, seeds by a rule",
    ),
    (
        "axes: {train.peak_lr: [1e-4, 1e-3, 1e-2]}\nrefine: train.peak_lr\nsearch: {method: tpe, trials: 9}",
        "3: refine: one of these a sweep: a search, refined values, seeds by a rule",
    ),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=[message for _, message in BAD])
def test_what_is_wrong_is_one_error(text: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        spec(text)
    assert str(caught.value).startswith(f"sweep.yaml:{message}")
