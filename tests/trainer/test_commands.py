import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from texts import as_jsonl, words

from headcount.trainer.commands import data
from headcount.trainer.data.names import get_named
from headcount.trainer.errors import UserError

SWEEP = """
name: named
job: {model: {scale: nano}, data: {source: letters, context: 64}, train: {steps: 40}}
axes: {train.peak_lr: [1e-3, 2e-3]}
control: none
seeds: [0]
"""


def invoke(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(data, [*arguments, "--home", str(home)], catch_exceptions=False)


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    return as_jsonl([words(n, 400, "abc ") for n in range(100)], tmp_path / "letters.jsonl", "body")


def test_from_a_file_to_a_plan(letters: Path, tmp_path: Path) -> None:
    """As a user types it: a sweep names what was prepared, and has its vocabulary."""
    (tmp_path / "sweep.yaml").write_text(SWEEP)

    def headcount(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "headcount", *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={"HEADCOUNT_HOME": str(tmp_path / "home"), "PATH": ""},
        )

    missing = headcount("plan", "sweep.yaml")
    assert missing.returncode == 2
    assert (
        "sweep.yaml:3: job.data.source: unknown data set 'letters'; expected one of stdlib; or make it: "
        "headcount data prepare letters FILES" in missing.stderr
    )
    prepared = headcount("data", "prepare", "letters", str(letters), "--column", "body", "--workers", "1")
    assert (prepared.returncode, prepared.stderr) == (0, "tokenising\njoining\n")
    assert "letters" in headcount("data", "list").stdout
    plan = json.loads(headcount("plan", "sweep.yaml", "--json").stdout)
    fingerprint = get_named("letters", tmp_path / "home").fingerprint
    assert [(d["name"], d["fingerprint"], d["vocab_size"]) for d in plan["datasets"]] == [
        ("letters", fingerprint, 256)
    ]


def test_inspect(letters: Path, tmp_path: Path) -> None:
    made = invoke(tmp_path, "prepare", "letters", str(letters), "--column", "body", "--workers", "1").stdout
    manifest = get_named("letters", tmp_path)
    assert made == invoke(tmp_path, "inspect", "letters").stdout
    assert made.splitlines() == [
        "name:          letters",
        f"fingerprint:   {manifest.fingerprint}",
        "tokenizer:     bytes, 256 ids, uint8",
        f"tokens:        {manifest.train_tokens:,} for training, {manifest.validation_tokens:,} "
        "for validation",
        "documents:     100",
        "text:          40,000 bytes",
        f"bytes a token: {manifest.bytes_per_token:.4f}",
        f"shards:        2, in {tmp_path}/data/{manifest.fingerprint}",
    ]
    assert invoke(tmp_path, "inspect", "letters", "--json").stdout == manifest.to_json()
    checked = invoke(tmp_path, "inspect", "letters", "--check")
    assert checked.stdout == made + "Every shard is as its manifest states.\n"
    shard = tmp_path / "data" / manifest.fingerprint / "validation-00000.bin"
    shard.write_bytes(shard.read_bytes()[:-1] + b"x")
    invoke(tmp_path, "inspect", "letters")
    with pytest.raises(UserError, match=r"validation-00000\.bin holds other tokens than its manifest states"):
        invoke(tmp_path, "inspect", "letters", "--check")
    with pytest.raises(UserError, match=r"unknown data set 'lettres'; did you mean 'letters'\?"):
        invoke(tmp_path, "inspect", "lettres")
    with pytest.raises(UserError, match="'stdlib' is no registered data set: its text is read where a sweep"):
        invoke(tmp_path, "inspect", "stdlib")


def test_register_and_list(tmp_path: Path) -> None:
    assert invoke(tmp_path, "list").stdout == "No data sets yet: headcount data prepare NAME FILES\n"
    (tmp_path / "train.bin").write_bytes(bytes([44, 1]) * 100)
    (tmp_path / "val.bin").write_bytes(bytes([0, 1]) * 50)
    registered = ("register", "numbers", f"{tmp_path}/*.bin", "--dtype", "uint16", "--vocabulary", "301")
    assert f"shards:        2, in {tmp_path}\n" in invoke(tmp_path, *registered).stdout
    [row] = json.loads(invoke(tmp_path, "list", "--json").stdout)
    assert row == {
        "name": "numbers",
        "fingerprint": get_named("numbers", tmp_path).fingerprint,
        "tokenizer": "not stated",
        "vocab_size": 301,
        "train_tokens": 100,
        "validation_tokens": 50,
    }
    assert "numbers" in invoke(tmp_path, "list").stdout
    (tmp_path / "val.bin").unlink()
    assert "numbers: " in (listed := invoke(tmp_path, "list").stdout)
    assert "val.bin is missing" in listed


def test_every_command_explains_itself() -> None:
    assert isinstance(data, click.Group)
    assert sorted(data.commands) == ["inspect", "list", "prepare", "register"]
    for command in data.commands.values():
        assert command.help
        assert all(option.help for option in command.params if isinstance(option, click.Option))
