"""What every residual stream states for planning, against the model that is built."""

from typing import Any

import pytest
import torch
from residual_variants import VARIANTS, build, job, kept_values, perturb, tokens
from torch.utils.flop_counter import FlopCounterMode

from headcount.trainer.flops import flops_per_token, parameter_count
from headcount.trainer.residuals.registry import (
    kept_per_token,
    stream_diagnostics,
    stream_fields,
    stream_label,
    stream_names,
    stream_reads,
)

every_variant = pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)


def test_every_stream_is_among_the_variants() -> None:
    assert {variant["residual"] for variant in VARIANTS.values()} == set(stream_names())
    assert set().union(*VARIANTS.values()) - {"residual", "streams"} <= stream_fields()


@every_variant
def test_the_parameters_are_those_that_planning_counts(variant: dict[str, Any]) -> None:
    for layers in (1, 3):
        config = job(variant, layers=layers)
        assert parameter_count(config) == sum(p.numel() for p in build(config).parameters())


@every_variant
def test_memory_grows_in_line_with_depth_and_is_what_planning_says(variant: dict[str, Any]) -> None:
    shape = {"d_model": 64, "d_ff": 32, "routing_heads": 1}  # wide, so that a read's weights are little
    inputs = tokens(job({}), 2)

    def kept(fields: dict[str, Any], layers: int) -> float:
        return kept_values(build(job(fields, **(shape | {"layers": layers})), torch.float32), inputs)

    at = {layers: kept(variant, layers) for layers in (2, 4, 6)}
    assert at[6] - at[4] == pytest.approx(at[4] - at[2], rel=0.15)
    added = at[6] - kept({}, 6)
    stated = kept_per_token(job(variant, **(shape | {"layers": 6})).model)
    assert stated == pytest.approx(added, rel=0.05, abs=8)


@pytest.mark.parametrize(
    ("variant", "elementwise"),
    [
        ({"residual": "laurel", "laurel_form": "lr", "laurel_rank": 4}, 0),
        ({"residual": "mhc"}, 4 * 4 * 16),
        ({"residual": "hyper_connections"}, 4 * 4 * 16),
        ({"residual": "frac_connections"}, 4 * 16),
        # PyTorch does not count attention on the CPU
        ({"residual": "deeploop", "loops": 2}, 2 * 16 * 16),
    ],
    ids=str,
)
def test_flops_are_those_of_the_models_products(variant: dict[str, Any], elementwise: int) -> None:
    """PyTorch's own count of a forward pass is a third of what planning says of both passes.

    elementwise: multiply-adds a token, of 2 blocks of width 16, that it counts as no product: writes.
    """

    def counted(fields: dict[str, Any]) -> float:
        config = job(fields)
        with FlopCounterMode(display=False) as counter:
            build(config, torch.float32)(tokens(config, 1))
        return counter.get_total_flops() / 16

    planned = flops_per_token(job(variant)) - flops_per_token(job({}))
    assert counted(variant) - counted({}) == pytest.approx(planned / 3 - 2 * elementwise, rel=1e-9)


@every_variant
def test_diagnostics_are_those_that_the_file_names(variant: dict[str, Any]) -> None:
    config = job(variant)
    stream = perturb(build(config)).stream
    state = stream.begin(torch.randn(2, 5, 16, dtype=torch.float64))
    found: set[str] = set()
    for site in range(4):
        figures = stream.diagnose(state, site)
        assert all(figure.isfinite().all() for figure in figures.values())
        found |= figures.keys()
        stream.read(state, site)
        stream.write(state, site, torch.randn(2, 5, 16, dtype=torch.float64))
    named = set(stream_diagnostics(variant["residual"]))
    assert found == named or (variant["residual"] == "laurel" and found <= named)


@every_variant
def test_labels_tell_the_forms_apart(variant: dict[str, Any]) -> None:
    label = stream_label(job(variant).model)
    assert [stream_label(job(v).model) for v in VARIANTS.values()].count(label) == 1
    if "query_init" in stream_reads(variant["residual"]):
        for other in (
            {"query_init": "normal"},
            {"logit_scale": 0.5},
            {"logit_scale_form": "per_head"},
            {"query_decay": "spared"},
        ):
            changed = stream_label(job({**variant, **other}).model)
            same = other.items() <= variant.items() or not other.keys() <= stream_reads(variant["residual"])
            assert (changed == label) == same
    if variant["residual"] in ("xhc", "xhc_flash", "dar", "wav", "haares", "deeploop"):
        assert "after the published description" in label
    assert stream_reads(variant["residual"]) >= set(variant) - {"residual"}
