"""The parts of a sweep file: one clear error for each that is wrong, with its line."""

import pytest

from headcount.sweeps.file.spec import SpecError, parse_spec

H = "axes: {model.routing_heads: [1, 2, 4]}\n"

BAD = [
    # the top
    ("axis: {}", "2: axis: unknown field; did you mean 'axes'?"),
    ("sedes: [0]", "2: sedes: unknown field; did you mean 'seeds'?"),
    ("seeds:", "2: seeds: has no value; leave the line out for the default"),
    ("order: by_cell", "2: order: got 'by_cell'; expected one of by_seed, axis, shuffled"),
    ("priority: high", "2: priority: got 'high'; expected a whole number from -2147483647 to 2147483647"),
    ("priority: true", "2: priority: got True; expected a whole number from -2147483647 to 2147483647"),
    ("on_failure: retry", "2: on_failure: got 'retry'; expected one of continue, stop"),
    ("description: [a]", "2: description: got a list; expected text"),
    # the job
    ("job: nano", "2: job: got 'nano'; expected fields of a job, such as 'model.residual: mhar'"),
    (
        "job:\n  modle: {scale: nano}",
        "3: job.modle: unknown field; did you mean 'model'?",
    ),
    ("job:\n  model:\n    d_modle: 64", "4: job.model.d_modle: unknown field; did you mean 'model.d_model'?"),
    ("job: {kv_heads: 2}", "2: job.kv_heads: unknown field; did you mean 'model.kv_heads'?"),
    ("job: {model: {scale: 10m}}", "2: job.model.scale: unknown scale '10m'; did you mean '100m'?"),
    (
        "job: {model: {residual: mhra}}",
        "2: job.model.residual: unknown residual 'mhra'; did you mean 'mhar'?",
    ),
    ("job: {train: {precision: fp16}}", "2: job.train.precision: got 'fp16'; did you mean 'bf16'?"),
    ("job:\n  train:\n    steps: 1e3", "4: job.train.steps: got 1000.0; expected a whole number"),
    ("job: {train: {peak_lr: '1e-3'}}", "2: job.train.peak_lr: got '1e-3'; expected a number"),
    ("job: {data: {text: [1]}}", "2: job.data.text: got [1]; expected a path or a list of paths"),
    ("job:\n  train: {steps: }", "3: job.train.steps: has no value; leave the line out for the default"),
    (
        "job: {train: {batch_tokens: 3000000000}}",
        "2: job.train.batch_tokens: got 3000000000; expected at most 2147483647",
    ),
    ("job: {model: nano}", "2: job.model: got 'nano'; expected fields of model"),
    ("job: {seed: 1}", "2: job.seed: seeds are listed at the top, as in 'seeds: [0, 1, 2]'"),
    (
        "job:\n  model: {heads: 4}\n  model.heads: 8",
        "4: job.model.heads: given twice; first on line 3",
    ),
    # the axes
    (
        "axes:\n  model.routing_head: [1]",
        "3: axes.model.routing_head: unknown field; did you mean 'model.routing_heads'?",
    ),
    (
        "axes:\n  model.kv_heads: []",
        "3: axes.model.kv_heads: an axis without values; list at least one, or remove the axis",
    ),
    ("axes: {model.kv_heads: 2}", "2: axes.model.kv_heads: got 2; expected a list of values"),
    (
        "axes:\n  model.kv_heads:\n  - 1\n  - two",
        "5: axes.model.kv_heads[1]: got 'two'; expected a whole number",
    ),
    ("axes:\n  train.peak_lr:\n  - 1e-3\n  - 0.001", "5: axes.train.peak_lr[1]: 0.001 is listed twice"),
    (
        "axes: {train.peak_lr: {low: 1e-4, high: 3e-3, log: true}}",
        "2: axes.train.peak_lr: a range is for a search; add a line such as 'search: {method: tpe",
    ),
    (
        "job: {model: {kv_heads: 2}}\naxes:\n  model.kv_heads: [1]",
        "4: axes.model.kv_heads: also set in job, on line 2; give it in one place",
    ),
    (
        "axes: {model.residual: [mhra]}",
        "2: axes.model.residual[0]: unknown residual 'mhra'; did you mean 'mhar'?",
    ),
    # the seeds
    ("seeds: []", "2: seeds: no seeds; expected a list such as [0, 1, 2]"),
    ("seeds: 3", "2: seeds: got 3; expected a list such as [0, 1, 2]"),
    ("seeds:\n- 0\n- -1", "4: seeds[1]: got -1; expected a whole number from 0 to 2147483647"),
    ("seeds:\n- 0\n- 1\n- 0", "5: seeds[2]: 0 is listed twice"),
    ("seeds: [1.5]", "2: seeds[0]: got 1.5; expected a whole number from 0 to 2147483647"),
    # the control
    (
        "control: additive",
        "2: control: got 'additive'; expected none, or fields such as {model.residual: additive}",
    ),
    ("control: {}", "2: control: empty; expected none, or fields such as {model.residual: additive}"),
    (
        "control: {model.residul: x}",
        "2: control.model.residul: unknown field; did you mean 'model.residual'?",
    ),
    (
        "control: {train.steps: 5}",
        "2: control.train.steps: a control trains on the same tokens by the same recipe",
    ),
    (
        "control: {model.scale: 1b}",
        "2: control.model.scale: a control trains on the same tokens by the same recipe",
    ),
    # skipping
    ("skip: model.heads > 1", "2: skip: got 'model.heads > 1'; expected a list, as in"),
    ("skip:\n- 3", "3: skip[0]: got 3; expected an expression such as 'model.kv_heads > 4'"),
    (
        "skip:\n- model.heads > 1\n- model.haeds > 1",
        "4: skip[1]: unknown field 'model.haeds'; did you mean 'model.heads'?\n    model.haeds > 1\n    ^",
    ),
    # the analysis
    (H + "analysis: {axes: a}", "3: analysis.axes: unknown field; did you mean 'axis'?"),
    (H + "analysis: {axis: model.routing_heads}", "3: analysis: lacks ends; expected axis, ends and middle"),
    (
        H + "analysis: {axis: model.routing_head, ends: [1, 4], middle: [2]}",
        "3: analysis.axis: unknown field 'model.routing_head'; did you mean 'model.routing_heads'?",
    ),
    (
        H + "analysis: {axis: model.kv_heads, ends: [1, 4], middle: [2]}",
        "3: analysis.axis: 'model.kv_heads' is not an axis of this sweep; expected one of model.routing",
    ),
    (
        H + "analysis: {axis: model.routing_heads, ends: [1, 8], middle: [2]}",
        "3: analysis.ends[1]: 8 is not a value of model.routing_heads; expected one of 1, 2, 4",
    ),
    (
        H + "analysis: {axis: model.routing_heads, ends: [1, 4], middle: [1]}",
        "3: analysis.middle[0]: 1 is named twice",
    ),
    (
        H + "analysis: {axis: model.routing_heads, ends: [1, 2], middle: [4]}",
        "3: analysis.middle[0]: 4 does not lie between the ends",
    ),
    (
        H + "analysis: {axis: model.routing_heads, ends: [1], middle: [2]}",
        "3: analysis.ends: got 1 values; expected the two ends of the axis",
    ),
    (
        H + "analysis: {axis: model.routing_heads, ends: [1, 4], middle: []}",
        "3: analysis.middle: no values; expected one or more between the ends",
    ),
    (
        H + "analysis: {axis: model.routing_heads, ends: [1, 4], middle: [2], alpha: 1}",
        "3: analysis.alpha: got 1.0; expected a number between 0 and 1",
    ),
    (
        H + "analysis: {axis: model.routing_heads, ends: [1, 4], middle: [2], flat_margin: 0}",
        "3: analysis.flat_margin: got 0; expected a number above 0",
    ),
    # resources
    ("resources: {max_parallel: 0}", "2: resources.max_parallel: got 0; expected a whole number from 1 to"),
    ("resources: {max_paralel: 2}", "2: resources.max_paralel: unknown field; did you mean 'max_parallel'?"),
    (
        "resources: {gpu_share: 1.5}",
        "2: resources.gpu_share: got 1.5; expected auto, or a number above 0 and",
    ),
    (
        "resources: {gpu_share: half}",
        "2: resources.gpu_share: got 'half'; expected auto, or a number above 0",
    ),
    (
        "resources: {gpus_per_job: 0}",
        "2: resources.gpus_per_job: got 0; expected a whole number from 1 to",
    ),
    (
        "resources: {gpus_per_job: 2, gpu_share: 0.5}",
        "2: resources.gpu_share: a job on several GPUs has them to itself; leave it out",
    ),
    (
        "resources: {accelerator: 200}",
        "2: resources.accelerator: got 200; expected any, or a kind of card as",
    ),
    (
        "resources: {accelerator: 'a b'}",
        "2: resources.accelerator: got 'a b'; expected any, or a kind of card",
    ),
    ("budget: 200", "2: budget: got 200; expected fields: gpu_hours"),
    ("budget: {}", "2: budget: empty; expected gpu_hours, as in {gpu_hours: 200}"),
    ("budget: {gpu_hours: 0}", "2: budget.gpu_hours: got 0; expected a number above 0"),
    ("budget: {hours: 3}", "2: budget.hours: unknown field; did you mean 'gpu_hours'?"),
    # not yet
    ("tail: 2", "2: tail: got 2; expected a whole number from 3 to"),
    ("tail: {n: 5}", "2: tail: got a mapping; expected a whole number from 3 to"),
    ("evaluate: [probe]", "2: evaluate: got a list; expected tasks, such as"),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=[message for _, message in BAD])
def test_what_is_wrong_is_one_error_with_line_field_and_the_right_thing(text: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec(f"name: a\n{text}\n", "sweep.yaml")
    assert str(caught.value).startswith(f"sweep.yaml:{message}")
    assert f"{caught.value.line}: {caught.value.field}: {caught.value.problem}".startswith(message)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("2 heads", ""),
        ("head count", "; did you mean 'head-count'?"),
        ("H/2.5", "; did you mean 'H-2-5'?"),
        ("ä", ""),
        ("'a'", None),
        ("a" * 100, None),
        ("a" * 101, f"; did you mean '{'a' * 100}'?"),
    ],
)
def test_a_name_fits_in_an_address(name: str, hint: str | None) -> None:
    if hint is None:
        assert parse_spec(f"name: {name}", "sweep.yaml").name == name.strip("'")
        return
    with pytest.raises(SpecError) as caught:
        parse_spec(f"name: {name}", "sweep.yaml")
    rule = "expected a letter, then letters, digits, - and _, 100 at most, since it stands in addresses"
    assert str(caught.value) == f"sweep.yaml:1: name: got {name!r}; {rule}{hint}"


def test_a_sweep_has_a_name() -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec("seeds: [0]", "sweep.yaml")
    assert str(caught.value) == "sweep.yaml:1: has no name; add a line such as 'name: my-sweep'"
