"""What the fields of a sweep file mean, and what is left out."""

from pathlib import Path

from headcount.sweeps.file.expression import parse_expression
from headcount.sweeps.file.spec import Analysis, Resources, SweepSpec, load_spec, parse_spec

FULL = """\
name: head-count
description: Where is the best number of routing heads?
job:
  model: {scale: 100m, residual: mhar}
  data.context: 2048
  train: {steps: 20000, batch_tokens: 131072, weight_decay: 0}
axes:
  model.routing_heads: [1, 2, 4]
  train: {peak_lr: [1e-4, 1]}
seeds: [3, 0]
control: {model.residual: additive}
skip: ["model.d_model % model.routing_heads != 0"]
search: grid
order: shuffled
priority: -2
tail: 7
on_failure: stop
analysis: {axis: model.routing_heads, ends: [1, 4], middle: [2], flat_margin: 0.005, alpha: 0.01}
resources: {gpus_per_job: 1, gpu_share: 0.25, max_parallel: 16, accelerator: H200}
budget: {gpu_hours: 200}
evaluate: []
"""


def test_every_field_is_read(tmp_path: Path) -> None:
    path = tmp_path / "full.yaml"
    path.write_text(FULL)
    assert load_spec(path) == SweepSpec(
        name="head-count",
        description="Where is the best number of routing heads?",
        job={
            "model.scale": "100m",
            "model.residual": "mhar",
            "data.context": 2048,
            "train.steps": 20_000,
            "train.batch_tokens": 131_072,
            "train.weight_decay": 0.0,
        },
        axes={"model.routing_heads": (1, 2, 4), "train.peak_lr": (1e-4, 1.0)},
        seeds=(3, 0),
        control={"model.residual": "additive"},
        skip=(parse_expression("model.d_model % model.routing_heads != 0"),),
        order="shuffled",
        priority=-2,
        on_failure="stop",
        analysis=Analysis("model.routing_heads", (1, 4), (2,), flat_margin=0.005, alpha=0.01),
        resources=Resources(max_parallel=16, gpu_share=0.25, accelerator="H200"),
        gpu_hours=200.0,
        tail=7,
        text=FULL,
        origin=str(path),
        lines={},
    )


def test_all_but_the_name_has_a_default() -> None:
    assert parse_spec("name: a", "a.yaml") == SweepSpec(
        name="a",
        description="",
        job={},
        axes={},
        seeds=(0,),
        control={"model.residual": "additive"},
        skip=(),
        order="by_seed",
        priority=0,
        on_failure="continue",
        analysis=None,
        resources=Resources(max_parallel=None, gpus_per_job=1, gpu_share=None, accelerator=None),
        gpu_hours=None,
        text="name: a",
        origin="a.yaml",
        lines={},
    )


def test_auto_and_any_are_the_defaults() -> None:
    spec = parse_spec("name: a\nresources: {gpu_share: auto, accelerator: any}", "a.yaml")
    assert spec.resources == Resources()


def test_a_whole_number_on_a_real_axis_is_the_real_number() -> None:
    spec = parse_spec("name: a\naxes: {train.peak_lr: [1]}\ncontrol: none", "a.yaml")
    assert repr(spec.axes["train.peak_lr"]) == "(1.0,)"
    assert spec.control is None
