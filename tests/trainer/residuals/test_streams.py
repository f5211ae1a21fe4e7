"""What holds for every residual stream, in every form."""

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
import torch
from residual_variants import VARIANTS, build, job, kept_values, perturb, tokens
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from headcount.trainer.data import Dataset
from headcount.trainer.execution import Execution
from headcount.trainer.flops import flops_per_token, parameter_count
from headcount.trainer.loop import train
from headcount.trainer.residuals.details import DetailedBlocks
from headcount.trainer.residuals.registry import (
    kept_per_token,
    stream_diagnostics,
    stream_fields,
    stream_label,
    stream_names,
    stream_reads,
)

every_variant = pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)

NO_BASELINE = {"value_residual", "wav", "haares", "xhc", "deeploop"}
"""Streams that state so under "Start"."""


def test_every_stream_is_among_the_variants() -> None:
    assert {variant["residual"] for variant in VARIANTS.values()} == set(stream_names())
    assert set().union(*VARIANTS.values()) - {"residual", "streams"} <= stream_fields()


@every_variant
def test_the_parameters_are_those_that_planning_counts(variant: dict[str, Any]) -> None:
    for layers in (1, 3):
        config = job(variant, layers=layers)
        assert parameter_count(config) == sum(p.numel() for p in build(config).parameters())


@every_variant
def test_at_the_start_the_model_computes_what_its_stream_says(variant: dict[str, Any]) -> None:
    """The additive stream's logits with equally rescaled weights: bit for bit, or up to the norms' eps."""
    if variant["residual"] in NO_BASELINE:
        assert (
            "Start: no baseline's"
            in import_module(f"headcount.trainer.residuals.{variant['residual']}").__doc__
        )
        pytest.skip("starts as no baseline")
    exactly = variant["residual"] in (
        "additive",
        "delta",
        "frac_connections",
        "denseformer",
        "muddformer",
        "laurel",
    )
    eps = 1e-6 if exactly else 0.0
    model = build(job(variant, layers=3, norm_eps=eps), torch.float32 if exactly else torch.float64)
    control = build(job({}, layers=3, norm_eps=eps), model.embedding.dtype)
    simplified = variant.get("connections") == "simplified"
    with torch.no_grad():
        for name, weight in control.named_parameters():
            weight.copy_(model.get_parameter(name))
            if simplified and name.endswith((".output.weight", ".down.weight")):
                weight.div_(model.stream.streams)
        if simplified:  # but for the noise
            for sublayer in model.stream.sublayers:
                for parameter in sublayer.parameters():
                    parameter.round_()
    inputs = tokens(job(variant))
    logits, expected = model(inputs), control(inputs)
    if exactly:
        assert torch.equal(logits, expected)
    else:
        bound = {"mhc": 1e-5}.get(variant["residual"], 1e-12)  # Sinkhorn's eps
        bound = 2e-3 if variant.get("mhc_init") == "normal" else bound  # its streams are written unequally
        assert torch.allclose(logits, expected, rtol=0, atol=bound)


@every_variant
def test_shared_weights_are_the_controls(variant: dict[str, Any]) -> None:
    control = dict(build(job({}, seed=3), torch.float32).named_parameters())
    model = build(job(variant, seed=3), torch.float32)
    rescaled = set()
    for name, weight in model.named_parameters():
        if name.startswith("stream."):
            assert weight.isfinite().all()
            continue
        factor = model.stream.draw_factor(name)
        if factor != 1:
            rescaled.add(name.split(".")[-2])
            assert torch.equal(weight, control[name] * factor)
        else:
            assert torch.equal(weight, control[name])
    if variant["residual"] == "deeploop":
        assert rescaled == {"value", "output", "gate", "up", "down"}
    elif variant["residual"] == "hyper_connections" and variant.get("connections") != "simplified":
        assert rescaled == {"output", "down"}
    else:
        assert not rescaled


@every_variant
def test_a_token_changes_nothing_before_it_nor_in_other_windows(variant: dict[str, Any]) -> None:
    config = job(variant)
    model = perturb(build(config, torch.float32))
    inputs = tokens(config, 3)
    changed = inputs.clone()
    changed[1, 9] = (inputs[1, 9] + 1) % config.model.vocab_size
    before, after = model(inputs), model(changed)
    assert torch.equal(before[1, :9], after[1, :9])
    assert torch.equal(before[[0, 2]], after[[0, 2]])
    assert not torch.isclose(before[1, 9], after[1, 9]).all()


@every_variant
def test_gradients_are_those_of_finite_differences(
    variant: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # the factor on a detail has no gradient by definition, so that differences would not agree
    monkeypatch.setattr(DetailedBlocks, "_to_rms_of", lambda self, total, detail: 0.7 * detail)
    config = job(variant)
    model = perturb(build(config))
    inputs = tokens(config, 1, 5)
    names = [name for name, _ in model.named_parameters()]
    shapes = [parameter.shape for parameter in model.parameters()]
    own = [name.startswith("stream.") for name in names]

    def flat(stream: bool) -> Tensor:
        chosen = [p.detach().flatten() for p, o in zip(model.parameters(), own, strict=True) if o == stream]
        return torch.cat([*chosen, torch.zeros(0, dtype=torch.float64)]).requires_grad_()

    def logits(stream: Tensor, shared: Tensor) -> Tensor:
        parts = {True: 0, False: 0}
        parameters = {}
        for name, shape, o in zip(names, shapes, own, strict=True):
            vector, start = (stream if o else shared), parts[o]
            parts[o] = start + shape.numel()
            parameters[name] = vector[start : parts[o]].view(shape)
        result: Tensor = torch.func.functional_call(model, parameters, (inputs,))
        return result

    assert torch.autograd.gradcheck(logits, (flat(True), flat(False)), fast_mode=True)


@every_variant
def test_every_parameter_gets_a_gradient_but_those_that_cannot(variant: dict[str, Any]) -> None:
    config = job(variant, layers=3)
    model = perturb(build(config))
    model.token_losses(tokens(config, 2, 17)).mean().backward()
    without = {name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()}
    first_writes = range(0, 2 * config.model.layers, config.model.block_size)
    # a softmax over one source is constant, a block's first write mixes nothing, an embedding has no details
    dead = {
        "mhar": {"stream.queries.0", "stream.key_weights.0", "stream.logit_scales.0"},
        "dar": {f"stream.sites.0.{n}" for n in ("queries.0", "queries.1", "key_weight", "logit_scales")}
        | {f"stream.gates.{site}" for site in first_writes},
        "wav": {"stream.queries.0", "stream.key_weights.0", "stream.biases.0"},
    }
    dead["mhar_hw"] = dead["haares"] = dead["mhar"]
    assert without <= dead.get(variant["residual"], set())


@every_variant
def test_gradients_stay_finite_under_large_activations(variant: dict[str, Any]) -> None:
    config = job(variant)
    model = perturb(build(config, torch.float32))
    with torch.no_grad():
        model.embedding.mul_(1e4)
        for name, parameter in model.named_parameters():
            if name.endswith((".output.weight", ".down.weight")) or name.startswith("stream."):
                parameter.mul_(30)
    losses = model.token_losses(tokens(config, 2, 17))
    losses.mean().backward()
    assert losses.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


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


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes a model's sublayers run through torch.compile, each without a break."""

    def compile_sublayers(model: Any) -> None:
        for block in model.blocks:
            for part, method in (
                (block.attention, "project"),
                (block.attention, "mix"),
                (block.mlp, "forward"),
            ):
                call = torch.compile(getattr(part, method), backend="aot_eager", fullgraph=True)
                monkeypatch.setattr(part, method, call, raising=True)

    torch._dynamo.reset()
    yield compile_sublayers
    torch._dynamo.reset()


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("stream", sorted({v["residual"]: v for v in VARIANTS.values()}))
def test_compiled_sublayers_compute_the_same(stream: str, compiled: Any) -> None:
    config = job(next(v for v in reversed(VARIANTS.values()) if v["residual"] == stream))
    model, twin = (perturb(build(config)) for _ in range(2))
    compiled(twin)
    windows = tokens(config, 2, 17)
    losses = [m.token_losses(windows).mean() for m in (model, twin)]
    assert torch.allclose(*losses, rtol=1e-10)
    for loss in losses:
        loss.backward()
    for (name, p), other in zip(model.named_parameters(), twin.parameters(), strict=True):
        if p.grad is not None:
            assert torch.allclose(p.grad, other.grad, rtol=1e-8, atol=1e-10), name


@every_variant
def test_a_job_stopped_and_resumed_ends_with_the_same_bits(
    variant: dict[str, Any], small_data: Dataset, tmp_path: Any
) -> None:
    config = job(variant, vocab_size=256)
    config = replace(config, train=replace(config.train, steps=8, warmup_steps=0, eval_every=1))
    execution = Execution(device="cpu")
    whole = list(train(config, small_data, execution=execution))
    polls = iter([False, False, False, True])
    stopped = list(train(config, small_data, folder=tmp_path, execution=execution, stop=lambda: next(polls)))
    assert not any(type(event).__name__ == "Result" for event in stopped)
    resumed = list(train(config, small_data, folder=tmp_path, execution=execution))
    assert resumed[-1].tail_mean == whole[-1].tail_mean  # type: ignore[union-attr]


@every_variant
def test_half_precision_trains_in_half_and_keeps_full_masters(variant: dict[str, Any]) -> None:
    config = job(variant)
    exact, half = (perturb(build(config, torch.float32), 0.05) for _ in range(2))
    half.compute_dtype = torch.bfloat16
    inputs = tokens(config)
    logits = half(inputs)
    assert logits.dtype == torch.bfloat16
    assert torch.allclose(logits.float(), exact(inputs), atol=0.05)
    logits.float().square().mean().backward()
    assert {p.grad.dtype for p in half.parameters() if p.grad is not None} == {torch.float32}


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
    others = {stream_label(job(v).model) for v in VARIANTS.values() if v["residual"] != variant["residual"]}
    assert label not in others
    if variant["residual"] in ("xhc", "dar", "wav", "haares", "deeploop"):
        assert "after the published description" in label
    assert stream_reads(variant["residual"]) >= set(variant) - {"residual"}
