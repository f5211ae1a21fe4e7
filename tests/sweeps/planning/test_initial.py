"""Sweeps that start from a trained model: which residual streams its routing allows."""

import pytest

from headcount.sweeps.file.spec import SpecError, parse_spec
from headcount.sweeps.planning.initial import check_stream

SWEEP = """\
name: on
job:
  init: {from: base}
  model: {residual: mhar}
seeds: [0]
control: none
"""


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (
            "residual: mhar",
            "residual: delta",
            "s.yaml:4: job.model.residual: got delta, where the model that",
        ),
        ("residual: mhar", "scale: nano", "s.yaml:3: job.init.from: got additive, where the model that"),
        (
            "  model: {residual: mhar}\nseeds:",
            "axes: {model.residual: [mhar, wav]}\nseeds:",
            r"s.yaml:4: axes.model.residual\[1\]: got wav, where the model that init.from names has",
        ),
        ("control: none\n", "", "s.yaml:3: job.init.from: the control is additive, where the model that"),
        (
            "control: none",
            "control: {model.residual: wav}",
            "s.yaml:6: control.model.residual: the control is wav, .*name a control of the same stream",
        ),
    ],
    ids=["job", "default", "axis", "the control by default", "control"],
)
def test_trained_routing_is_not_lost(before: str, after: str, told: str) -> None:
    with pytest.raises(SpecError, match=told):
        check_stream(parse_spec(SWEEP.replace(before, after), "s.yaml"), "mhar")


@pytest.mark.parametrize("control", ["none", "{model.routing_heads: 1}"])
def test_the_same_stream_goes_on(control: str) -> None:
    check_stream(parse_spec(SWEEP.replace("none", control), "s.yaml"), "mhar")
