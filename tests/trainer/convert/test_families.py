import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headcount.trainer.convert.families import Routing, job_for, read_config, rope_parameters
from headcount.trainer.errors import UserError

ROPE = {"rope_theta": 1e4, "factor": 2.0, "original_max_position_embeddings": 32}


def changed(source: Path, folder: Path, **keys: Any) -> Path:
    config = json.loads((source / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **keys}))
    return folder


@pytest.mark.parametrize(
    ("name", "keys", "message"),
    [
        (
            "llama",
            {"model_type": "mixtral"},
            "model_type: got 'mixtral'; expected one of llama, mistral, qwen2, qwen3",
        ),
        ("llama", {"model_type": "qwen2_moe"}, "model_type: got 'qwen2_moe'; expected one of"),
        (
            "llama",
            {"quantization_config": {"bits": 4}},
            "quantization_config: quantised weights are not converted",
        ),
        ("llama", {"hidden_act": "gelu"}, "hidden_act: got 'gelu'; expected 'silu'"),
        ("llama", {"attention_bias": True}, "attention_bias: got true; biases are supported on queries"),
        ("qwen3", {"attention_bias": True}, "attention_bias: got true"),
        ("llama", {"mlp_bias": True}, "mlp_bias: got true"),
        (
            "llama",
            {"rope_parameters": {**ROPE, "rope_type": "dynamic"}},
            "rope_type: got 'dynamic'; expected default, linear, llama3 or yarn",
        ),
        (
            "llama",
            {
                "rope_parameters": {
                    **ROPE,
                    **{"rope_type": "llama3", "low_freq_factor": 2.0, "high_freq_factor": 4.0},
                }
            },
            r"low_freq_factor: got 2\.0; expected 1\.0",
        ),
        (
            "qwen3",
            {"rope_parameters": {**ROPE, "rope_type": "yarn", "attention_factor": 1.5}},
            r"attention_factor: got 1\.5; not supported",
        ),
        (
            "qwen3",
            {"rope_parameters": {**ROPE, "rope_type": "yarn", "truncate": False}},
            "truncate: got False; expected True",
        ),
    ],
)
def test_what_is_not_supported_is_named_by_its_key(
    checkpoint: Callable[[str], Path], tmp_path: Path, name: str, keys: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=rf"config\.json: {message}"):
        read_config(changed(checkpoint(name), tmp_path, **keys))


def test_a_folder_that_is_none_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no config\.json; name a folder in Hugging Face layout"):
        read_config(tmp_path / "meta-llama")


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("mistral", {"sliding_window": 32}),
        (
            "qwen2",
            {"use_sliding_window": True, "sliding_window": 32, "max_window_layers": 1, "layer_types": None},
        ),
    ],
)
def test_a_sliding_window_is_refused_unless_it_is_the_context(
    checkpoint: Callable[[str], Path], tmp_path: Path, name: str, keys: dict[str, Any]
) -> None:
    config = read_config(changed(checkpoint(name), tmp_path, **keys))
    with pytest.raises(
        UserError, match=r"--context: got 64; attention here slides over 32 tokens .* --context 32"
    ):
        job_for(config, Routing(), context=None, precision="fp32")
    assert job_for(config, Routing(), context=32, precision="fp32").data.context == 32


def test_a_window_that_no_layer_slides_is_none(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    config = read_config(changed(checkpoint("qwen2"), tmp_path, use_sliding_window=False, sliding_window=8))
    assert job_for(config, Routing(), context=None, precision="fp32").data.context == 64


@pytest.mark.parametrize(
    ("routing", "context", "message"),
    [
        (Routing(), 65, "--context: got 65; the model reads at most 64"),
        (
            Routing(heads=5),
            None,
            r"does not convert: model\.routing_heads: 5 does not divide model\.d_model \(32\); the nearest",
        ),
    ],
)
def test_routing_and_context_must_fit(
    checkpoint: Callable[[str], Path], routing: Routing, context: int | None, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        job_for(read_config(checkpoint("llama")), routing, context=context, precision="fp32")


def test_the_keys_of_older_versions_are_read(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    """A checkpoint on the hub is rarely of the newest version."""
    config = json.loads((checkpoint("llama") / "config.json").read_text())
    scaling = config.pop("rope_parameters")
    theta = scaling.pop("rope_theta")
    old = {**config, "rope_theta": theta, "rope_scaling": scaling}
    (tmp_path / "config.json").write_text(json.dumps(old))
    model = job_for(read_config(tmp_path), Routing(), context=None, precision="fp32").model
    assert (model.rope_scaling, model.rope_factor, model.rope_original_context) == ("llama3", 8.0, 32)


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3"])
def test_rotary_positions_go_back_as_they_came(checkpoint: Callable[[str], Path], name: str) -> None:
    config = read_config(checkpoint(name))
    job = job_for(config, Routing(), context=None, precision="fp32")
    assert rope_parameters(job) == config.rope_parameters
