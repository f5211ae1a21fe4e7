from pathlib import Path

import pytest

from headcount.__main__ import cli
from headcount.sweeps.file.document import SpecError
from headcount.sweeps.file.job_file import read_job

JOB = """
job:
  model: {scale: nano, residual: mhar, routing_heads: 4}
  train.peak_lr: 1e-3
seed: 7
"""


def written(folder: Path, text: str) -> Path:
    (folder / "job.yaml").write_text(text)
    return folder / "job.yaml"


def test_a_job_is_its_fields_and_its_seed(tmp_path: Path) -> None:
    fields, seed = read_job(written(tmp_path, JOB))
    assert fields == {
        "model.scale": "nano",
        "model.residual": "mhar",
        "model.routing_heads": 4,
        "train.peak_lr": 1e-3,
    }
    assert seed == 7
    assert read_job(written(tmp_path, "job: {}")) == ({}, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: 1", "job.yaml:1: has no job; add its fields, such as 'job: {model: {scale: nano}}'"),
        ("job: {}\nseeds: [0]", "job.yaml:2: seeds: unknown field; did you mean 'seed'?"),
        ("job: {}\nseed: -1", "job.yaml:2: seed: got -1; expected a whole number from 0 to 2147483647"),
        (
            "job:\n  train: {steps: 5}",
            "job.yaml:2: job.train.steps: got 5; expected 8 or more, for a tail of 3 evaluations",
        ),
    ],
)
def test_mistakes_name_their_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_job(written(tmp_path, text))
    assert str(caught.value) == f"{tmp_path}/{message}"


def test_the_command_trains_the_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.txt").write_text("the depth of a head reads the depth " * 400)
    shape = "model: {d_model: 16, d_ff: 24}, data: {context: 16, text: TEXT}"
    recipe = "train: {steps: 8, batch_tokens: 64, eval_windows: 2}"
    text = f"job: {{{shape}, {recipe}}}".replace("TEXT", str(tmp_path / "text.txt"))
    arguments = ["train", str(written(tmp_path, text)), "--home", str(tmp_path / "home"), "--device", "cpu"]
    with pytest.raises(SystemExit) as ended:
        cli(arguments, standalone_mode=False)
    assert ended.value.code == 0
    assert "result tail mean" in capsys.readouterr().out
