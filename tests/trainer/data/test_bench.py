import json
import sys
from pathlib import Path

import pytest

from headcount.__main__ import cli
from headcount.trainer.data.bench import _tokenise_by
from headcount.trainer.data.tokenizer import load_tokenizer
from headcount.trainer.errors import UserError


def test_both_ways_make_the_same_tokens_of_a_text() -> None:
    tokenise = _tokenise_by(load_tokenizer("bytes"), "text")
    assert tokenise({"text": "aé"}) == {"ids": [97, 0xC3, 0xA9, 0], "len": 4}


def test_ours_is_timed_and_what_the_other_lacks_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    lines = (json.dumps({"text": f"document {n} " * 50}) for n in range(200))
    (tmp_path / "texts.jsonl").write_text("\n".join(lines))
    command = ["bench", "data", str(tmp_path / "texts.jsonl"), "--tokenizer", "bytes", "--workers", "1"]
    with pytest.raises(UserError, match="nanoGPT's way of preparing data needs datasets: pip install"):
        cli(command, standalone_mode=False)
    assert "headcount data prepare: whole " in capsys.readouterr().out
