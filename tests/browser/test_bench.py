"""`headcount bench dashboard` runs as a whole, over a small store."""

import re
import subprocess
import sys

from headcount.dashboard.bench.measure import TABS


def test_every_figure_is_measured() -> None:
    command = [sys.executable, "-m", "headcount", "bench", "dashboard"]
    options = ["--sweeps", "1", "--rounds", "1", "--seconds", "5"]
    run = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    lines = run.stdout.splitlines()
    assert lines[0].startswith("3 sweeps, 3,875 jobs, filled in ")
    assert lines[1].startswith("Chromium ")
    figures = {line[:58].strip(): float(line[58:].split()[0]) for line in lines[2:-1]}
    assert list(figures) == [
        "sweep of 875 jobs: first contentful paint",
        "sweep of 875 jobs: U drawn",
        "sweep of 875 jobs: page answered",
        "sweep of 875 jobs: sent, compressed",
        "sweep of 2,000 jobs: U drawn",
        "list of sweeps: answered, p95",
        *(f"switch to the tab {tab}" for tab in TABS),
        "live page under 1,000 events a minute",
    ]
    assert all(value > 0 for value in figures.values())
    assert re.search(r"[1-9]\d* refreshes in \d+ s", lines[-2])
