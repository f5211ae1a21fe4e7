"""The page on residual streams: its table, its sweep and its example are what it says."""

import re
import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch
from residual_variants import TINY, build, job, kept_values, perturb, tokens

import headcount
from headcount.sweeps.file.spec import parse_spec
from headcount.sweeps.planning.plan import plan
from headcount.trainer import residuals
from headcount.trainer.config import job_from_fields
from headcount.trainer.data import Manifest
from headcount.trainer.residuals import registry

PAGE = (Path(headcount.__path__[0]) / "docs" / "residual_streams.md").read_text(encoding="utf-8")
ROUTING = {"routing_heads", "query_init", "logit_scale", "logit_scale_form"}


def code(language: str) -> str:
    (block,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)
    return str(block)


def test_the_table_has_every_stream_with_its_fields_and_parameters() -> None:
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|(.*)\| ([\d,]+) \| (.*) \|$", PAGE, re.M)
    assert sorted(row[0] for row in rows) == list(registry.stream_names())
    for name, method, fields, added, start in rows:
        read = set(re.findall(r"`(\w+)`", fields)) | (
            ROUTING if "routing" in re.sub(r"`\w+`", "", fields) else set()
        )
        assert read == registry.stream_reads(name), name
        model = job_from_fields({"model.scale": "100m", "model.residual": name}).model
        assert int(added.replace(",", "")) == registry.added_parameters(model), name
        assert ("after the published description" in registry.stream_label(model)) == (
            "after the published description" in method
        )
        says = str(import_module(f"headcount.trainer.residuals.{name}").__doc__)
        assert (start == "none") == ("Start: no baseline's" in says), name
        assert (start == "equal") == ("bit for bit" in says or name == "additive"), name


def test_the_sweep_plans() -> None:
    manifest = Manifest("f" * 64, "stdlib", 256, 4_000_000_000, 50_000_000, 1_000, 4_050_000_000)
    result = plan(parse_spec(code("yaml"), "sweep.yaml"), lambda config: manifest)
    assert sorted({registry.stream_label(job.config.model) for job in result.jobs}) == [
        "MHAR, H = 8",
        "attention residuals (H = 1), logit scale 0.35355",
    ]


def test_the_example_is_a_whole_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "layer_scale.py").write_text(code("python"))
    monkeypatch.setattr(residuals, "__path__", [*residuals.__path__, str(tmp_path)])
    planned, names = registry._planned, registry.stream_names

    def read_there(name: str) -> dict[str, object]:
        if name != "layer_scale":
            return planned(name)
        with monkeypatch.context() as patch:
            patch.setattr(registry, "_FOLDER", tmp_path)
            return planned.__wrapped__(name)

    monkeypatch.setattr(registry, "_planned", read_there)
    for module in (registry, sys.modules["headcount.trainer.rules"]):
        monkeypatch.setattr(module, "stream_names", lambda: (*names(), "layer_scale"))
    variant = {"residual": "layer_scale"}
    config, inputs = job(variant), tokens(job({}))
    model, control = (build(job(fields), torch.float32) for fields in (variant, {}))
    assert registry.stream_label(config.model) == "LayerScale"
    assert torch.equal(model(inputs), control(inputs))
    assert sum(p.numel() for p in model.stream.parameters()) == registry.added_parameters(config.model)
    kept = kept_values(model, inputs) - kept_values(control, inputs)
    assert kept == pytest.approx(registry.kept_per_token(config.model), rel=0.05)
    assert registry.added_flops_per_token(config.model) == 12 * TINY["d_model"]
    assert not torch.allclose(perturb(model)(inputs), control(inputs))
    sys.modules.pop("headcount.trainer.residuals.layer_scale")
