import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from random_checkpoints import CHECKPOINTS, write_checkpoint
from safetensors.torch import load_file, save_file

from headcount.trainer.convert import checks
from headcount.trainer.convert.checkpoint import Checkpoint
from headcount.trainer.convert.checks import CheckFailed, check_identity, check_weights, random_tokens
from headcount.trainer.convert.conversion import convert
from headcount.trainer.convert.families import Routing
from headcount.trainer.convert.reference import reference_logits
from headcount.trainer.errors import UserError
from headcount.trainer.flops import parameter_count
from headcount.trainer.generation import generate
from headcount.trainer.job_files.model_file import job_of, load_model, read_model

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("name", "routing"),
    [
        ("llama", Routing(heads=8)),
        ("mistral", Routing(heads=4, block_size=2)),
        ("qwen2", Routing(heads=1, block_size=3)),
        ("qwen3", Routing("additive")),
        ("qwen3", Routing(heads=2)),
    ],
)
def test_every_family_converts_and_passes_its_checks(
    checkpoint: Callable[[str], Path], tmp_path: Path, name: str, routing: Routing
) -> None:
    lines: list[str] = []
    source = checkpoint(name)
    assert len(list(source.glob("*.safetensors"))) > 1
    job = convert(source, tmp_path, routing, device=CPU, tell=lines.append).job
    said = "\n".join(lines)
    assert "bfloat16 equal to the additive stream's, bit for bit" in said
    apart = float(said.partition("float64 against transformers: ")[2].split()[0])
    assert 0 < apart < 1e-12
    model, metadata = load_model(tmp_path / "model.safetensors")
    assert parameter_count(job) == sum(parameter.numel() for parameter in model.parameters())
    assert job_of(metadata) == job
    assert (job.model.residual, job.data.context, job.train.precision) == (routing.residual, 64, "fp32")
    added = {name.split(".")[1] for name in model.state_dict() if name.startswith("stream.")}
    assert added == (
        set() if routing.residual == "additive" else {"queries", "key_weights", "nulls", "gates"}
    )


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_what_distinguishes_a_family_is_read(
    checkpoint: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    """Otherwise a check could pass because a configuration does nothing: each of these changes the logits."""
    convert(checkpoint(name), tmp_path, Routing(), device=CPU, tell=lambda line: None)
    config = json.loads((checkpoint(name) / "config.json").read_text())
    changed = {
        "llama": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}},
        "mistral": {"rms_norm_eps": 1e-2},
        "qwen2": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}},
        "qwen3": {"rope_parameters": {**config["rope_parameters"], "factor": 2.0}},
    }
    other = tmp_path / "other"
    other.mkdir()
    for file in checkpoint(name).iterdir():
        (other / file.name).symlink_to(file)
    (other / "config.json").unlink()
    (other / "config.json").write_text(json.dumps({**config, **changed[name]}))
    model, metadata = load_model(tmp_path / "model.safetensors")
    tokens = random_tokens(job_of(metadata), CPU)
    with torch.inference_mode(), pytest.raises(CheckFailed, match=r"logits in float32 are .* from those in"):
        checks.check_against_transformers(model, other, tokens, lambda line: None)


def test_weights_of_half_precision_keep_their_bits(tmp_path: Path) -> None:
    for dtype, name in ((torch.bfloat16, "bf16"), (torch.float16, "f16")):
        source = write_checkpoint(tmp_path / name, "llama", dtype)
        job = convert(source, tmp_path / f"our-{name}", Routing(), device=CPU, tell=lambda line: None).job
        tensors, _ = read_model(tmp_path / f"our-{name}" / "model.safetensors")
        assert tensors["embedding"].dtype == dtype
        assert tensors["stream.gates.0"].dtype == torch.float32
        assert job.train.precision == "bf16"


def test_the_converted_model_writes_what_transformers_does(
    checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    convert(checkpoint("qwen2"), tmp_path, Routing(heads=4), device=CPU, tell=lambda line: None)
    model, _ = load_model(tmp_path / "model.safetensors")
    prompt = torch.tensor([[5, 17, 3, 88], [90, 2, 2, 41]])
    text = torch.stack(list(generate(model, prompt, 20)), dim=1)
    known = torch.cat((prompt, text), dim=1)
    theirs = reference_logits(checkpoint("qwen2"), known, torch.float32).argmax(-1)[:, 3:-1]
    assert torch.equal(text, theirs)
    assert len(text.unique()) > 5


def test_checks_fail_where_they_should(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    convert(checkpoint("llama"), tmp_path, Routing(), device=CPU, tell=lambda line: None)
    file = tmp_path / "model.safetensors"
    model, metadata = load_model(file)
    job = job_of(metadata)
    tokens = random_tokens(job, CPU)
    with torch.inference_mode():
        check_identity(model, job, tokens, torch.float32)
        model.get_parameter("stream.gates.3").data.fill_(1e-3)
        with pytest.raises(
            CheckFailed, match=r"[\d,]+ of 12,288 logits in float32 differ from those of the additive"
        ):
            check_identity(model, job, tokens, torch.float32)
    tensors, metadata = read_model(file)
    for name in ("stream.gates.0", "blocks.1.mlp.up.weight"):
        save_file({**tensors, name: tensors[name] + 1}, file, metadata)
        with pytest.raises(CheckFailed, match=f"{name} is not what it was converted from"):
            check_weights(file, Checkpoint(checkpoint("llama")))


def test_nothing_is_left_of_a_conversion_that_fails(
    checkpoint: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "ROUNDING", 0.0)
    with pytest.raises(CheckFailed, match="expected at most 0 times theirs"):
        convert(checkpoint("llama"), tmp_path, Routing(), device=CPU, tell=lambda line: None)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_holds_a_model_is_left_alone(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_text("mine")
    with pytest.raises(UserError, match="holds a model already; choose another folder"):
        convert(checkpoint("llama"), tmp_path, Routing(), device=CPU)
    assert (tmp_path / "model.safetensors").read_text() == "mine"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda w: w.pop("model.layers.1.mlp.up_proj.weight"),
            r"model\.layers\.1\.mlp\.up_proj\.weight is missing",
        ),
        (
            lambda w: w.update({"model.layers.0.mlp.experts.0.w1.weight": torch.ones(2)}),
            r"model\.layers\.0\.mlp\.experts\.0\.w1\.weight is no weight of such a model",
        ),
        (
            lambda w: w.update({"model.norm.weight": torch.ones(7)}),
            r"model\.norm\.weight has the shape \[7\]; config\.json makes it \[32\]",
        ),
        (
            lambda w: w.update({"model.norm.weight": torch.ones(32, dtype=torch.int8)}),
            r"model\.norm\.weight is torch\.int8: quantised weights are not converted",
        ),
        (lambda w: w.update({"lm_head.weight": torch.ones(96, 32)}), "lm_head.weight is not the embedding"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused_by_its_key(
    checkpoint: Callable[[str], Path], tmp_path: Path, change: Callable[..., object], message: str
) -> None:
    weights = {
        k: v for shard in checkpoint("llama").glob("*.safetensors") for k, v in load_file(shard).items()
    }
    change(weights)
    (tmp_path / "config.json").write_bytes((checkpoint("llama") / "config.json").read_bytes())
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match=message):
        convert(tmp_path, tmp_path / "out", Routing(), device=CPU)


def test_buffers_of_old_versions_and_a_tied_head_that_was_saved_are_passed_over(
    checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    weights = {
        k: v for shard in checkpoint("llama").glob("*.safetensors") for k, v in load_file(shard).items()
    }
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"].clone()
    weights["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4)
    (tmp_path / "config.json").write_bytes((checkpoint("llama") / "config.json").read_bytes())
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    convert(tmp_path, tmp_path / "out", Routing(), device=CPU, tell=lambda line: None)
