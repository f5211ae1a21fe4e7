"""Conversion, the probe and jobs that start from a checkpoint on a GPU: `pytest -m gpu`."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from headcount.trainer.config import InitConfig, JobConfig
from headcount.trainer.convert.command import main as convert
from headcount.trainer.data import Dataset
from headcount.trainer.events import Evaluation
from headcount.trainer.execution import Execution
from headcount.trainer.job_files.checkpoint_model import model_of_checkpoint
from headcount.trainer.loop import train
from headcount.trainer.probe.figures import Settings
from headcount.trainer.probe.running import probe_file

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("default"),  # the compiler sets off some of its own
]

ON_GPU = Execution(device="cuda")


def losses(config: JobConfig, data: Dataset, **options: Path) -> dict[int, float]:
    events = train(config, data, execution=ON_GPU, **options)
    return {event.step: event.loss for event in events if isinstance(event, Evaluation)}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_job_starts_from_a_checkpoint_that_another_left(
    small_job: Callable[..., JobConfig], small_data: Dataset, tmp_path: Path, precision: str
) -> None:
    """Its first loss is the other's at that step, to the last bit."""
    config = small_job(
        model__d_model=64, model__residual="mhar", model__routing_heads=4, train__precision=precision
    )
    whole = losses(config, small_data)
    asked = iter(range(100))
    stopped = train(config, small_data, folder=tmp_path, execution=ON_GPU, stop=lambda: next(asked) == 6)
    list(stopped)
    [checkpoint] = tmp_path.rglob("step-*.pt")
    file = model_of_checkpoint(checkpoint, tmp_path / "initial")
    started = replace(config, init=InitConfig(hashlib.sha256(file.read_bytes()).hexdigest()))
    assert losses(started, small_data, weights=file)[0] == whole[6]


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_a_converted_model_has_the_logits_of_the_additive_stream(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], family: str
) -> None:
    pytest.importorskip("transformers")
    asked = ["--random", "nano", "--family", family, "--device", "cuda", "--json", "--out", str(tmp_path)]
    assert convert(asked) == 0
    report = json.loads(capsys.readouterr().out)
    different = {check["name"]: check["found"].get("different") for check in report["checks"]}
    assert different["additive float32"] == different["additive bfloat16"] == 0
    assert report["device"] == torch.cuda.get_device_name()


def test_a_probe_on_the_gpu_is_that_on_the_cpu_to_rounding(
    small_job: Callable[..., JobConfig], small_data: Dataset, tmp_path: Path
) -> None:
    config = small_job(model__d_model=64, model__residual="mhar", train__precision="fp32")
    list(train(config, small_data, folder=tmp_path, execution=ON_GPU))
    file = tmp_path / "model.safetensors"
    there, here = (probe_file(file, small_data, Settings(8), device) for device in ("cuda", "cpu"))
    assert there.disagreement == pytest.approx(here.disagreement, rel=1e-3)
    assert there.null == pytest.approx(here.null, rel=1e-3)
    assert here.disagreement > 0
