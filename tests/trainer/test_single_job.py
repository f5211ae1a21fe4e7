"""`python -m headcount.trainer JOB.json` as a user sees it."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_jobs import write_words

from headcount.trainer.errors import UserError
from headcount.trainer.single_job import main, read_json

JOB = {
    "job": {
        "model": {"d_model": 16, "heads": 4, "kv_heads": 2, "d_ff": 24, "residual": "mhar"},
        "data.text": "TEXT",
        "data.context": 16,
        "train": {"batch_tokens": 128, "steps": 40, "eval_every": 5, "eval_windows": 4, "peak_lr": 1e-2},
    },
    "seed": 3,
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    text = write_words(tmp_path / "text.txt")
    job = tmp_path / "job.json"
    job.write_text(json.dumps(JOB).replace("TEXT", str(text)))
    return job


def test_a_job_is_told_from_its_data_to_its_files(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = ["--home", str(file.parent / "home")]
    assert main([str(file), *home]) == 0
    told = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"data   text: [\d,]+ tokens for training, [\d,]+ for validation, 256 in .*", told[0])
    assert told[1] == "job    8,192 parameters, mhar; 40 steps of 128 tokens; seed 3"
    assert "device cpu" in told[2]
    assert [line.split()[0] for line in told if "validation" in line][1:] == [
        f"{step}/40" for step in range(0, 41, 5)
    ]
    (mean,) = (float(line.split()[3]) for line in told if line.startswith("result tail mean"))
    assert told[-1] == f"files  {file.parent / 'job'}"
    assert {"model.safetensors", "training_loss.npy"} <= {p.name for p in (file.parent / "job").iterdir()}
    assert main([str(file), *home]) == 0  # it is done: told again, not trained again
    again = capsys.readouterr().out.splitlines()
    assert f"result tail mean {mean:.6f} nats a token" in again
    assert "going on from step 40" in again


def test_how_it_is_computed_is_told(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = ["--home", str(file.parent / "home")]
    main([str(file), *home, "--fast", "--micro-batch", "2"])
    environment = capsys.readouterr().out.splitlines()[2]
    assert "micro_batch 2" in environment
    assert "exact False" in environment


def test_a_job_that_diverges_is_told_and_exits_with_3(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = json.loads(file.read_text())
    job["job"]["train"] |= {"peak_lr": 1e30, "warmup_steps": 0}
    file.write_text(json.dumps(job))
    assert main([str(file), "--home", str(file.parent / "home")]) == 3
    told = capsys.readouterr().out
    assert re.search(r"^result diverged at step \d+$", told, re.MULTILINE)
    assert not (file.parent / "job" / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--gpus", "0", "--gpus: got 0; expected 1 or more"),
        ("--threads", "0", "--threads: got 0; expected 1 or more"),
        ("--micro-batch", "-2", "--micro-batch: got -2; expected 1 or more"),
        ("--checkpoint-seconds", "-1", "--checkpoint-seconds: got -1.0; expected 0 or more"),
        ("--checkpoint-seconds", "nan", "--checkpoint-seconds: got nan; expected 0 or more"),
    ],
)
def test_a_number_that_cannot_be_is_refused_by_its_option(
    file: Path, option: str, value: str, message: str
) -> None:
    with pytest.raises(UserError, match=f"^{message}$"):
        main([str(file), option, value])


def test_a_job_that_is_stopped_goes_on_from_its_folder(file: Path) -> None:
    job = json.loads(file.read_text())
    job["job"]["train"] |= {"steps": 100_000, "eval_every": 10_000}
    file.write_text(json.dumps(job))
    command = [sys.executable, "-m", "headcount.trainer", str(file), "--home", str(file.parent / "home")]
    reached = [0]
    for _ in range(2):
        told = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                told.append(line)
                if " training " in line:
                    time.sleep(0.1)
                    process.send_signal(signal.SIGTERM)
        assert process.returncode == 130
        assert told[-1] == f"stopped; the same command goes on from {file.parent / 'job'}\n"
        if reached[-1]:
            assert f"going on from step {reached[-1]}\n" in told
        (step,) = re.findall(r"checkpoint step-0*(\d+)\.pt", "".join(told))
        reached.append(int(step))
    assert 0 < reached[1] < reached[2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job: {}", "not JSON"),
        ('{"jobs": {}}', r'expected {"job": {…}, "seed": 0}'),
        ('{"job": {}, "seeds": 1}', "seeds: unknown field; did you mean 'seed'?"),
        ('{"job": {}, "seed": -1}', "seed: got -1; expected a whole number, 0 or more"),
    ],
)
def test_mistakes_in_the_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "job.json").write_text(text)
    with pytest.raises(UserError, match=re.escape(message)):
        read_json(tmp_path / "job.json")


def test_a_mistake_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text('{"job": {"model.residal": "mhar"}}')
    command = [sys.executable, "-m", "headcount.trainer", str(tmp_path / "job.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Error: model.residal: unknown field; did you mean 'model.residual'?\n"


def test_a_file_whose_folder_would_be_itself(tmp_path: Path) -> None:
    (tmp_path / "job").write_text('{"job": {}}')
    with pytest.raises(UserError, match="has no suffix to leave out for the folder's name; say --folder"):
        main([str(tmp_path / "job")])
