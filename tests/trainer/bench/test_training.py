"""`headcount bench training` on the CPU, where its figures mean nothing and its arithmetic is the same."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from headcount.trainer.bench import training as bench
from headcount.trainer.bench.peer import peer_flops, peer_layers
from headcount.trainer.bench.rows import Row
from headcount.trainer.errors import UserError
from headcount.trainer.flops import flops_per_token

PEER = """
import torch
from torch import nn
from torch.nn import functional as F
from dataclasses import dataclass


@dataclass
class GPTConfig:
    block_size: int
    vocab_size: int
    n_layer: int
    n_head: int
    n_embd: int
    dropout: float
    bias: bool


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        print("number of parameters: few")
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.blocks = nn.ModuleList(nn.Linear(config.n_embd, config.n_embd) for _ in range(config.n_layer))

    def forward(self, idx, targets):
        x = self.wte(idx)
        for block in self.blocks:
            x = block(x)
        logits = F.linear(x, self.wte.weight)
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))

    def configure_optimizers(self, weight_decay, learning_rate, betas, device_type):
        return torch.optim.AdamW(self.parameters(), lr=learning_rate, betas=betas, weight_decay=weight_decay)
"""
"""With nanoGPT's interface."""


def test_rows_of_a_scale_and_its_peer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.py").write_text(PEER)
    bench.main(["--scales", "nano", "--updates", "1", "--peer", str(tmp_path), "--gpus", "2", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert [(row["form"], row["micro_batch"]) for row in told["rows"]] == [
        ("exact", 8),
        ("fast", 8),
        ("2 GPUs", 8),
        ("nanoGPT", 8),
    ]
    for row in told["rows"]:
        assert row["milliseconds"] > 0
        assert row["tokens_per_second"] == pytest.approx(8 * 128 / row["milliseconds"] * 1e3)
        assert (row["mfu"], row["reserved_bytes"]) == (None, 0)
    names = [
        f"nano: seconds to the first update of a second job, another {what}" for what in ("rate", "seed")
    ]
    assert [check["name"] for check in told["checks"]] == names
    for check in told["checks"]:
        assert check["met"] == (check["value"] <= 1.0)


@pytest.mark.parametrize("scale", ["100m", "350m", "1b"])
def test_the_peer_has_equal_flops_a_token(scale: str) -> None:
    config = bench.job(scale)
    assert config.model.vocab_size == 151_936
    layers = peer_layers(config)
    assert layers == {"100m": 12, "350m": 30, "1b": 45}[scale]
    assert peer_flops(config, layers) == pytest.approx(flops_per_token(config), rel=0.015)


ROW = Row("350m", "exact", 4, 300.0, 100_000.0, 0.40, 15e9, 16e9)
"""Of 533 million parameters, 8.5 GB in 16 bytes each."""


def test_what_is_asked_of_the_rows() -> None:
    rows = [
        ROW,
        replace(ROW, form="fast", mfu=0.5, tokens_per_second=125_000.0, peak_bytes=1e12),
        replace(ROW, micro_batch=16, mfu=0.46, tokens_per_second=115_000.0, peak_bytes=1e12),
        replace(ROW, form="2 GPUs", tokens_per_second=191_000.0),
        replace(ROW, form="nanoGPT", mfu=0.36),
    ]
    memory, best, two, ratio = bench.checks("350m", rows)
    assert (memory.value, memory.met) == (15.0, True)
    assert memory.bound == pytest.approx(16 * 0.533 + 7, abs=0.01)
    assert best == bench.Check("350m: MFU, best micro-batch (16)", 0.46, 0.45, True)
    assert two == bench.Check("350m: two GPUs against one", 1.91, 1.9, True)
    assert (ratio.value, ratio.met) == (pytest.approx(0.40 / 0.36), False)
    assert not next(bench.checks("350m", [replace(ROW, peak_bytes=15.6e9)])).met
    assert list(bench.checks("nano", [])) == []


def test_a_checkout_without_nanogpt_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=f"{tmp_path} has no model.py; give the path of a checkout of nanoGPT"
    ):
        bench.main(["--peer", str(tmp_path)])
    (tmp_path / "model.py").write_text("x = 1\n")
    with pytest.raises(UserError, match="defines no GPT and GPTConfig"):
        bench.main(["--peer", str(tmp_path)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--updates", "0"], "--updates: got 0; expected 1 or more"),
        (["--gpus", "0"], "--gpus: got 0; expected 1 or more"),
        (["--scales", "nano", "350"], "--scales: '350' is none that is trained; did you mean '350m'?"),
        (["--scales", "8b"], "--scales: '8b' is none that is trained; expected one of 100m, 124m, 1b"),
    ],
)
def test_what_cannot_be_timed_is_refused_before_anything_is(arguments: list[str], message: str) -> None:
    with pytest.raises(UserError, match=f"^{re.escape(message)}"):
        bench.main(arguments)
