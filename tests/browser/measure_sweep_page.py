"""How soon the page of 875 jobs draws its U, in a real Chromium.

Run it as `.venv/bin/python tests/browser/measure_sweep_page.py`. Times are in milliseconds from the start of
the navigation: on a first visit with nothing cached, and on a later one. `OMP_NUM_THREADS=1` is as `headcount
serve` has it.
"""

import os
import platform
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))

from browser_service import serving
from builders import build_sweep

from headcount.orchestrator.store import Store

ROUNDS = 7
TIMES = """() => ({
  "page answered": performance.getEntriesByType("navigation")[0].responseEnd,
  "first contentful paint": performance.getEntriesByName("first-contentful-paint")[0].startTime,
  "U drawn": performance.getEntriesByName("drawn:heads-delta")[0].startTime,
  "grid drawn": performance.getEntriesByName("drawn:grid-delta")[0].startTime,
  "kilobytes sent": ["navigation", "resource"].flatMap((kind) => performance.getEntriesByType(kind))
    .reduce((sum, entry) => sum + entry.transferSize, 0) / 1000,
})"""


def fill(store: Store) -> None:
    """7 routing heads × 5 KV heads × 5 learning rates × 5 seeds, and their controls."""
    with store.write() as session:
        build_sweep(
            session,
            "large",
            heads=(1, 2, 4, 8, 16, 32, 64),
            kv_heads=(1, 2, 4, 8, 16),
            rates=(1e-4, 3e-4, 1e-3, 3e-3, 1e-2),
            seeds=(0, 1, 2, 3, 4),
            curves=False,
        )


def main() -> None:
    found = os.environ.get("HEADCOUNT_CHROMIUM") or shutil.which("chromium")
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder), fill) as service,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        first, later = [], []
        for _ in range(ROUNDS + 1):
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            page = context.new_page()
            for times in (first, later):
                page.goto(service.url + "/sweeps/large?y=delta&train.peak_lr=1e-3")
                page.locator("#grid-delta[data-drawn]").wait_for()
                page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
                times.append(page.evaluate(TIMES))
            context.close()
        version = browser.version
    print(f"Chromium {version}, {os.cpu_count()} cores, {platform.machine()}; median of {ROUNDS} (range)")
    for visit, rounds in (("first visit", first), ("later visits", later)):
        for name in rounds[0]:
            values = sorted(r[name] for r in rounds[1:])  # the first round warms the service up
            print(f"{visit}, {name}: {statistics.median(values):.0f} ({values[0]:.0f} to {values[-1]:.0f})")


if __name__ == "__main__":
    main()
