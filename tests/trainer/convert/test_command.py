import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from tokenizers import Tokenizer, models, pre_tokenizers

from headcount.orchestrator.instruments.commands import generate, probe
from headcount.trainer.convert.command import main
from headcount.trainer.data.building import build
from headcount.trainer.data.workers import Recipe
from headcount.trainer.errors import UserError
from headcount.trainer.job_files.model_file import job_of, read_model


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """A byte of text is a token, as far as letters go; 90 in all."""
    letters = {chr(32 + n): n for n in range(89)}
    words = Tokenizer(models.BPE({**letters, "Ġ": 89, "<|endoftext|>": 90}, []))
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    words.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_a_converted_model_is_opened_by_what_opens_a_trained_one(
    checkpoint: Callable[[str], Path],
    tokenizer: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the data set that it is given; without one, by its own tokenizer."""
    home, out = tmp_path / "home", tmp_path / "out"
    monkeypatch.setenv("HEADCOUNT_HOME", str(home))
    text = tmp_path / "text.txt"
    text.write_text("the depth of a head is read by its own slice\n\n" * 400)
    build("letters", (str(text),), home, Recipe(str(tokenizer), None, "text", None), workers=1)
    source = checkpoint("llama")
    arguments = [
        str(source),
        "--routing-heads",
        "4",
        "--block-size",
        "2",
        "--context",
        "32",
        "--device",
        "cpu",
    ]
    assert main([*arguments, "--data", "letters", "--out", str(out / "a")]) == 0
    assert "float64 against transformers" in capsys.readouterr().out
    _, metadata = read_model(out / "a" / "model.safetensors")
    model = job_of(metadata).model
    assert (model.residual, model.routing_heads, model.block_size) == ("delta", 4, 2)
    asked = [str(out / "a"), "the ", "--tokens", "8", "--tokenizer", str(tokenizer), "--device", "cpu"]
    written = CliRunner().invoke(generate, asked, catch_exceptions=False)
    assert len(written.output) > len("the \n")
    probed = CliRunner().invoke(
        probe, [str(out / "a"), "--windows", "2", "--device", "cpu"], catch_exceptions=False
    )
    assert probed.exit_code == 0
    assert "disagreement" in probed.output

    main([*arguments, "--out", str(out / "b")])
    asked[0] = str(out / "b")
    assert CliRunner().invoke(generate, asked, catch_exceptions=False).output == written.output
    with pytest.raises(UserError, match=r"name its tokenizer\.json with --tokenizer"):
        CliRunner().invoke(generate, asked[:4], catch_exceptions=False)
    with pytest.raises(UserError, match="has no data set, so no text of its own; convert it with --data"):
        CliRunner().invoke(probe, [str(out / "b"), "--device", "cpu"], catch_exceptions=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a MODEL to convert, or a shape with --random"),
        (["MODEL", "--random", "nano"], "name a MODEL to convert, or a shape with --random"),
        (["--random", "nano", "--to", "huggingface"], "--random goes to headcount and back by itself"),
        (["MODEL", "--routing-heads", "0"], "--routing-heads: got 0; expected 1 or more"),
        (["MODEL", "--block-size", "-1"], "--block-size: got -1; expected 1 or more"),
        (["MODEL", "--context", "0"], "--context: got 0; expected 1 or more"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        main([*arguments, "--out", str(tmp_path / "out")])


def test_a_random_checkpoint_goes_there_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--random", "nano", "--family", "qwen3", "--device", "cpu", "--json", "--out", str(tmp_path)]
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert {folder.name for folder in tmp_path.iterdir()} == {"random", "headcount", "back"}
    assert "logits in bfloat16 equal to the additive stream's, bit for bit" in printed.err
    report = json.loads(printed.out)
    file = tmp_path / "headcount" / "model.safetensors"
    tensors, _ = read_model(file)
    assert report["parameters"] == sum(tensor.numel() for tensor in tensors.values())
    assert report["routing_parameters"] == sum(
        t.numel() for n, t in tensors.items() if n.startswith("stream.")
    )
    assert report["bytes"] == file.stat().st_size
    checks = {check["name"]: check for check in report["checks"]}
    assert list(checks) == ["weights", "additive float32", "additive bfloat16", "transformers"]
    assert all(check["seconds"] >= 0 and check["peak_memory_bytes"] > 1e6 for check in checks.values())
    for name in ("additive float32", "additive bfloat16"):
        assert checks[name]["found"] == {"logits": 32768, "different": 0}
    assert checks["transformers"]["found"]["largest difference float64"] < 1e-10
    assert (report["huggingface"]["gates"], report["huggingface"]["different float32"]) == (4, 0)
