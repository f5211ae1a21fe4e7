"""How every residual stream computes and trains, in every form."""

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
import torch
from residual_variants import VARIANTS, build, job, perturb, tokens
from small_jobs import after
from torch import Tensor

from headcount.trainer.config import FieldError
from headcount.trainer.data import Dataset
from headcount.trainer.execution import Execution
from headcount.trainer.loop import train
from headcount.trainer.optimizer import build_optimizer
from headcount.trainer.residuals.details import DetailedBlocks
from headcount.trainer.residuals.registry import stream_names

every_variant = pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)

NO_BASELINE = {"value_residual", "wav", "haares", "xhc", "xhc_flash", "deeploop"}
WITH_BASELINE = {name: fields for name, fields in VARIANTS.items() if fields["residual"] not in NO_BASELINE}


def test_a_stream_without_a_baseline_says_so() -> None:
    for name in stream_names():
        says = import_module(f"headcount.trainer.residuals.{name}").__doc__
        assert ("Start: no baseline's" in says) == (name in NO_BASELINE)
        assert "Start: " in says or name == "additive"


@pytest.mark.parametrize("variant", WITH_BASELINE.values(), ids=WITH_BASELINE)
def test_at_the_start_the_model_computes_what_its_stream_says(variant: dict[str, Any]) -> None:
    """The additive stream's logits with equally rescaled weights: bit for bit, or up to the norms' eps."""
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
    names = {name for name, _ in model.named_parameters()}
    assert without == dead.get(variant["residual"], set()) & names


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
    stopped = list(train(config, small_data, folder=tmp_path, execution=execution, stop=after(3)))
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
def test_weight_decay_spares_what_the_stream_says_and_nothing_else(variant: dict[str, Any]) -> None:
    config = job(variant)
    config = replace(config, train=replace(config.train, peak_lr=0.5, weight_decay=0.5))
    model = perturb(build(config, torch.float32))
    spared = {id(parameter) for parameter in model.stream.undecayed()}
    before = [parameter.detach().clone() for parameter in model.parameters()]
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    build_optimizer(model, config.train).step()
    for (name, parameter), old in zip(model.named_parameters(), before, strict=True):
        assert torch.equal(parameter, old if id(parameter) in spared else old * 0.75), name
        assert id(parameter) not in spared or name.startswith("stream.")


def test_a_job_whose_stream_cannot_be_built_is_refused() -> None:
    for variant, message in (
        ({"residual": "frac_connections", "streams": 3}, "model.streams: 3 does not divide model.d_model"),
        (
            {"residual": "frac_connections", "connections": "simplified"},
            "model.connections: frac_connections",
        ),
        ({"residual": "xhc", "streams": 1}, "model.streams: got 1; xhc needs 2 or more"),
        ({"residual": "xhc_flash", "streams": 1}, "model.streams: got 1; xhc_flash needs 2 or more"),
        ({"residual": "delta", "norm_eps": 0.0}, "model.norm_eps: got 0; delta"),
        ({"residual": "muddformer", "norm_eps": 0.0}, "model.norm_eps: got 0; muddformer"),
        ({"residual": "mhar", "block_size": 0}, "model.block_size: got 0; expected 1 or more"),
        ({"residual": "deeploop", "loops": 0}, "model.loops: got 0; expected 1 or more"),
    ):
        with pytest.raises(FieldError, match=message):
            job(variant)


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_the_environment_names_depth_routing_where_a_stream_uses_it(variant: dict[str, Any]) -> None:
    stream = build(job(variant)).stream
    routed = variant["residual"] in ("mhar", "mhar_hw", "delta", "haares")
    routing = stream.routing(torch.empty(1, 16))
    assert (routing and routing.implementation) == ("reference" if routed else None)
