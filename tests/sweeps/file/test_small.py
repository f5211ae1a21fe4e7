"""The small variant of a sweep: what it takes from the file, its text, and where its mistakes are told."""

import pytest
from planned import MANIFEST

from headcount.sweeps.file.spec import Analysis, SpecError, SweepSpec, parse_spec
from headcount.sweeps.planning.plan import plan

TEXT = """\
name: grid
description: Which way, and "why"?
job:
  model: {residual: mhar, routing_heads: 4}
  data: {text: ["no", "0o17"], context: 2048}
  train: {steps: 20000, peak_lr: 1e-3}
axes:
  model.scale: [100m, 350m]
  model.kv_heads: [1, 4, 8]
seeds: [0, 1, 2]
analysis: {axis: model.kv_heads, ends: [1, 8], middle: [4]}
small:
  job: {model.scale: nano, data.context: 64, train: {steps: 40, adam_eps: 1e-9}}
  axes:
    model: {kv_heads: [1, 2, 4], routing_heads: [2, 4]}
  seeds: [3]
  analysis: {axis: model.kv_heads, ends: [1, 4], middle: [2]}
"""

SECTION = TEXT[TEXT.index("small:") :]


def small(text: str = TEXT) -> SweepSpec:
    return parse_spec(text, "sweeps/grid.yaml", small=True)


def test_the_variant_is_the_file_with_its_section_laid_over() -> None:
    variant = small()
    assert variant.name == "grid-small"
    assert variant.job == {
        "model.residual": "mhar",
        "data.text": ("no", "0o17"),
        "data.context": 64,
        "train.steps": 40,
        "train.peak_lr": 1e-3,
        "model.scale": "nano",
        "train.adam_eps": 1e-9,
    }
    assert list(variant.axes.items()) == [("model.kv_heads", (1, 2, 4)), ("model.routing_heads", (2, 4))]
    assert variant.seeds == (3,)
    assert variant.analysis == Analysis("model.kv_heads", (1, 4), (2,))
    whole = parse_spec(TEXT, "grid.yaml")
    assert (whole.name, whole.text, whole.seeds) == ("grid", TEXT, (0, 1, 2))
    assert list(whole.axes) == ["model.scale", "model.kv_heads"]


def test_its_text_is_a_file_of_its_own_that_reads_the_same() -> None:
    variant = small()
    assert variant.text.splitlines()[:6] == [
        "# The small variant of grid.yaml, as its section 'small' has it.",
        'name: "grid-small"',
        'description: "Which way, and \\"why\\"?"',
        "job:",
        '  model.residual: "mhar"',
        '  data.text: ["no", "0o17"]',
    ]
    assert "small:" not in variant.text
    assert parse_spec(variant.text, "sweeps/grid.yaml") == variant


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("small:", "smal:", "grid.yaml:12: smal: unknown field; did you mean 'small'?"),
        (SECTION, "", "grid.yaml:1: has no small variant; add a section 'small' with"),
        ("seeds: [3]", "name: tiny", "grid.yaml:16: small.name: unknown field; expected one of"),
        ("seeds: [3]", "sedes: [3]", "grid.yaml:16: small.sedes: unknown field; did you mean 'seeds'?"),
        ("steps: 40", "stpes: 40", "grid.yaml:13: small.job.train.stpes: unknown field; did you mean"),
        ("middle: [2]", "middle: [8]", "grid.yaml:17: small.analysis.middle[0]: 8 is not a value of"),
        (SECTION, "small: tiny", "grid.yaml:12: small: got 'tiny'; expected fields: description, job, axes"),
    ],
)
def test_a_mistake_is_told_at_its_line(before: str, after: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        small(TEXT.replace(before, after))
    assert str(caught.value).startswith(f"sweeps/{message}")


def test_a_mistake_in_the_section_is_told_without_asking_for_the_variant() -> None:
    with pytest.raises(SpecError, match=r"small\.seeds: no seeds"):
        parse_spec(TEXT.replace("seeds: [3]", "seeds: []"), "grid.yaml")


def test_a_cell_that_breaks_a_rule_is_told_where_the_variant_gives_it() -> None:
    broken = small(TEXT.replace("routing_heads: [2, 4]", "routing_heads: [2, 3]"))
    with pytest.raises(SpecError, match=r"grid\.yaml:15: axes\.model\.routing_heads\[1\]: 3 does not divide"):
        plan(broken, lambda data: MANIFEST)
