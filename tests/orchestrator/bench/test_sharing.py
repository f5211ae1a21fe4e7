"""Sharing a device, measured on the processor."""

from pathlib import Path

from headcount.orchestrator.bench.figures import Figure
from headcount.orchestrator.bench.sharing import packing


def test_two_at_a_time_find_what_one_at_a_time_does(tmp_path: Path) -> None:
    lines = list(packing(tmp_path, "cpu", "nano", 8, counts=(1, 2)))
    assert isinstance(lines[0], str)
    assert lines[0].startswith("2 jobs of nano, 8 steps, on the cpu; load ")
    figures = [line for line in lines if isinstance(line, Figure)]
    assert [figure.name for figure in figures[::2]] == [
        "jobs an hour, 1 at a time",
        "jobs an hour, 2 at a time",
    ]
    assert [figure.value for figure in figures[1::2]] == [0, 0]
    assert figures[0].detail == "1.00 × of one"
    assert 0 < figures[2].value < 3600 * 1000
