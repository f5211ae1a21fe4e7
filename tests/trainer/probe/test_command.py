"""The probe on a machine with PyTorch and NumPy alone."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from headcount.trainer.config import JobConfig
from headcount.trainer.data import Dataset
from headcount.trainer.errors import UserError
from headcount.trainer.execution import Execution
from headcount.trainer.job_files.model_file import metadata_of, write_model
from headcount.trainer.loop import train
from headcount.trainer.model.transformer import Transformer
from headcount.trainer.probe.command import main
from headcount.trainer.probe.figures import Settings
from headcount.trainer.probe.running import probe_file


def test_a_trained_model_is_probed_on_its_own_text(
    small_job: Callable[..., JobConfig],
    small_data: Dataset,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    list(train(small_job(model__residual="mhar"), small_data, folder=tmp_path, execution=Execution()))
    home = small_data.folder.parents[1]
    asked = [str(tmp_path), "--home", str(home), "--device", "cpu", "--windows", "6", "--draws", "2"]
    assert main([*asked, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    expected = probe_file(tmp_path / "model.safetensors", small_data, Settings(6, 4, 2, 0), "cpu")
    assert report["measurements"] == expected.measurements()
    assert [site["disagreement"] for site in report["sites"]] == [s.disagreement for s in expected.sites]
    assert (report["environment"]["device"], report["seconds"] > 0) == ("cpu", True)
    assert main(asked) == 0
    assert f"  probe.excess {expected.excess:.4f}" in capsys.readouterr().out.splitlines()


def test_mistakes_are_told(small_job: Callable[..., JobConfig], tmp_path: Path) -> None:
    job = small_job(model__residual="mhar")
    weights = Transformer(job.model, 16, seed=0).state_dict()
    write_model(tmp_path / "model.safetensors", weights, metadata_of(job, "", 0))
    for arguments, message in (
        ([str(tmp_path)], "the model has no data set, so no text of its own; convert it with --data NAME"),
        ([str(tmp_path), "--windows", "1"], "--windows: got 1; expected 2 or more"),
        ([str(tmp_path / "other")], r"cannot read .*other: No such file"),
    ):
        with pytest.raises(UserError, match=message):
            main(arguments)
