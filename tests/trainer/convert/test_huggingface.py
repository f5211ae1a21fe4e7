import ast
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from headcount.trainer.config import JobConfig
from headcount.trainer.convert import huggingface, remote
from headcount.trainer.convert.checkpoint import write_checkpoint
from headcount.trainer.convert.checks import CheckFailed
from headcount.trainer.convert.conversion import convert
from headcount.trainer.convert.families import Routing
from headcount.trainer.convert.huggingface import CODE, to_huggingface
from headcount.trainer.errors import UserError
from headcount.trainer.generation import generate
from headcount.trainer.job_files.model_file import load_model, metadata_of, write_model
from headcount.trainer.model.transformer import Transformer

CPU = torch.device("cpu")


def quiet(line: str) -> None:
    pass


def train_a_little(file: Path) -> Transformer:
    """Move every parameter of the stream in `file`, as training would."""
    model, metadata = load_model(file)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.startswith("stream."):
                parameter.add_(torch.randn(parameter.shape, generator=generator))
    write_model(file, model.state_dict(), metadata)
    return model


@pytest.mark.parametrize(
    ("name", "routing"),
    [
        ("llama", Routing(heads=8)),
        ("mistral", Routing(heads=4, block_size=2)),
        ("qwen2", Routing(heads=1, block_size=3)),
        ("qwen3", Routing("additive")),
    ],
)
def test_transformers_computes_the_same_with_gates_that_have_moved(
    checkpoint: Callable[[str], Path], tmp_path: Path, name: str, routing: Routing
) -> None:
    convert(checkpoint(name), tmp_path / "ours", routing, device=CPU, tell=quiet)
    model = train_a_little(tmp_path / "ours" / "model.safetensors")
    lines: list[str] = []
    to_huggingface(tmp_path / "ours", tmp_path / "back", device=CPU, tell=lines.append)
    assert any("0 of 12,288 differ" in line for line in lines), lines
    tokens = torch.randint(96, (2, 64), generator=torch.Generator().manual_seed(5))
    for dtype in (torch.float32, torch.bfloat16):
        loaded = load(tmp_path / "back", dtype=dtype)
        model.compute_dtype = dtype
        with torch.inference_mode():
            assert torch.equal(loaded(tokens).logits, model(tokens))
    if routing.residual == "delta":
        before = AutoModelForCausalLM.from_pretrained(checkpoint(name))
        with torch.inference_mode():
            assert (before(tokens).logits - loaded(tokens).logits).abs().max() > 0.1


def test_it_writes_what_ours_writes(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    """With a cache of either kind, and beside a longer prompt."""
    convert(checkpoint("llama"), tmp_path / "ours", Routing(heads=2, block_size=2), device=CPU, tell=quiet)
    model = train_a_little(tmp_path / "ours" / "model.safetensors")
    to_huggingface(tmp_path / "ours", tmp_path / "back", device=CPU, tell=quiet)
    prompt = torch.tensor([[5, 17, 3, 88]])
    text = torch.cat(list(generate(model, prompt, 12)))
    loaded = load(tmp_path / "back")
    loaded.generation_config.eos_token_id = None
    options = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0}
    for cache in ({}, {"cache_implementation": "static", "disable_compile": True}):
        ones = torch.ones_like(prompt)
        assert torch.equal(loaded.generate(prompt, attention_mask=ones, **options, **cache)[0, 4:], text)
    padded = torch.tensor([[7, 7, 7, *prompt[0].tolist()], [1, 2, 3, 4, 5, 6, 7]])
    mask = torch.ones_like(padded)
    mask[0, :3] = 0
    assert torch.equal(loaded.generate(padded, attention_mask=mask, **options)[0, 7:], text)


def test_gates_survive_saving_and_loading(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    """Also in bfloat16, and where another parameter is missing, so that transformers makes one anew."""
    convert(checkpoint("llama"), tmp_path / "ours", Routing(heads=2), device=CPU, tell=quiet)
    model = train_a_little(tmp_path / "ours" / "model.safetensors")
    gates = [model.get_parameter(f"stream.gates.{site}").item() for site in range(4)]
    to_huggingface(tmp_path / "ours", tmp_path / "back", device=CPU, tell=quiet)
    load(tmp_path / "back").save_pretrained(tmp_path / "again")
    assert gates_of(load(tmp_path / "again")) == gates
    half = load(tmp_path / "again", dtype=torch.bfloat16)
    assert half.lm_head.weight.dtype == torch.bfloat16
    assert gates_of(half) == gates
    weights = load_file(tmp_path / "again" / "model.safetensors")
    del weights["model.layers.1.mlp_routing.null"]
    save_file(weights, tmp_path / "again" / "model.safetensors", {"format": "pt"})
    assert gates_of(load(tmp_path / "again")) == gates


def test_the_code_that_goes_along_needs_no_headcount() -> None:
    for module in CODE:
        tree = ast.parse((Path(remote.__path__[0]) / f"{module}.py").read_text())
        needed = {
            name.partition(".")[0]
            for node in ast.walk(tree)
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        assert needed <= {"math", "typing", "torch", "transformers", *CODE}


def load(folder: Path, **options: Any) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True, **options)


def gates_of(model: nn.Module) -> list[float]:
    return [p.item() for name, p in model.named_parameters() if name.endswith("routing.gate")]


def test_a_trained_model_of_ours_goes_too(tmp_path: Path, small_job: Callable[..., JobConfig]) -> None:
    job = small_job(
        **{"model__residual": "delta", "model__routing_heads": 4, "model__query_init": "normal"},
        **{"model__logit_scale": 0.5, "model__logit_scale_form": "per_head"},
    )
    model = Transformer(job.model, 16, seed=0)
    write_model(tmp_path / "model.safetensors", model.state_dict(), metadata_of(job, "f" * 64, 16))
    train_a_little(tmp_path / "model.safetensors")
    to_huggingface(tmp_path / "model.safetensors", tmp_path / "back", device=CPU, tell=quiet)


def test_other_streams_and_wrong_gates_are_refused(
    tmp_path: Path, small_job: Callable[..., JobConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    for residual in ("mhar", "delta"):
        job = small_job(model__residual=residual)
        weights = Transformer(job.model, 16, seed=0).state_dict()
        (tmp_path / residual).mkdir()
        write_model(tmp_path / residual / "model.safetensors", weights, metadata_of(job, "f" * 64, 16))
    with pytest.raises(UserError, match=r"stream of .* is mhar; expected one of additive, delta"):
        to_huggingface(tmp_path / "mhar", tmp_path / "back", device=CPU)
    train_a_little(tmp_path / "delta" / "model.safetensors")
    to_huggingface(tmp_path / "delta", tmp_path / "back", device=CPU, tell=quiet)
    with pytest.raises(UserError, match="back is not empty; choose another folder"):
        to_huggingface(tmp_path / "delta", tmp_path / "back", device=CPU)

    def without_gates(folder: Path, tensors: Mapping[str, Tensor]) -> None:
        write_checkpoint(folder, {name: t * (not name.endswith(".gate")) for name, t in tensors.items()})

    monkeypatch.setattr(huggingface, "write_checkpoint", without_gates)
    with pytest.raises(CheckFailed, match=r"the gates that transformers finds in .* are not the model's"):
        to_huggingface(tmp_path / "delta", tmp_path / "again", device=CPU, tell=quiet)
    assert not (tmp_path / "again").exists()
