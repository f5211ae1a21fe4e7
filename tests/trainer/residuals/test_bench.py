"""The benchmark of all streams: its forms, its table, and that one form's fault does not end the others."""

from pathlib import Path

import pytest
from small_jobs import SMALL, write_words

from headcount.trainer.config import job_from_fields
from headcount.trainer.residuals import bench
from headcount.trainer.residuals.registry import stream_names


def test_every_stream_is_timed_and_what_is_there_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {form.get("residual", "additive") for form in bench.FORMS} == set(stream_names())
    results = tmp_path / "results.json"
    arguments = ["--scale", "nano", "--steps", "8", "--timed-windows", "1", "--device", "cpu"]
    arguments += ["--parts", "time", "--home", str(tmp_path), "--results", str(results)]
    monkeypatch.setattr(bench, "prepare", lambda config, home: None)
    monkeypatch.setattr(bench, "FORMS", [{}, {"residual": "mhar"}])
    monkeypatch.setattr(bench, "measure", lambda config, home, device: {"tokens_per_second": 2000.0})
    bench.main(arguments)
    first = capsys.readouterr().out
    assert "| additive | 0 | 2 | 1.00 | – | – | – |" in first
    assert "| attention residuals (H = 1) | 640 | 2 | 1.00 | – | – | – |" in first
    monkeypatch.setattr(bench, "measure", lambda config, home, device: pytest.fail("run again"))
    bench.main(arguments)
    assert capsys.readouterr().out in first


def test_a_fault_is_told_in_its_row(tmp_path: Path) -> None:
    config = job_from_fields({"data.text": str(tmp_path / "none.txt")})
    assert "none.txt" in bench.learn(config, tmp_path, "cpu")["outcome"]
    assert "none.txt" in bench.measure(config, tmp_path, "cpu")["error"]


def test_a_form_is_timed_and_trained(tmp_path: Path) -> None:
    text = str(write_words(tmp_path / "text.txt"))
    config = job_from_fields({**SMALL, "data.text": text, "model.residual": "mhar"})
    timed = bench.measure(config, tmp_path, "cpu", updates=2)
    assert timed.pop("tokens_per_second") > 0
    assert timed == {"compiled": False, "graphs": False}
    trained = bench.learn(config, tmp_path, "cpu")
    assert (trained["outcome"], len(trained["evaluations"])) == ("finished", 9)
