"""The benchmark as a whole: a store is filled, its pages are visited, and one is watched while it is live."""

import os
import platform
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Thread
from typing import Any

from headcount.api.bench import filling, service, writer
from headcount.dashboard.bench.browser import chromium, renderer_seconds, visit, wait_until
from headcount.orchestrator.bench.figures import Figure, Times, load_words
from headcount.orchestrator.store import Store, open_store

PAGE = filling.Size("page", 7, 5)
"""875 jobs."""
MANY = filling.Size("many", 16, 5)
"""2,000 jobs."""
EVENTS_PER_MINUTE = 1000
TABS = ("Grid", "Paired", "Learning rate", "Curves", "Speed", "Timeline", "Heads")
"""As one clicks through them."""


def measure(home: Path, sweeps: int, rounds: int, seconds: int) -> Iterator[Figure | str]:
    """Figures as they are found, and lines on how."""
    url = f"sqlite:///{home}/headcount.db"
    store = open_store(url)
    begun = time.perf_counter()
    sizes = [PAGE, MANY, *(filling.Size(f"filled-{i}", 8, 5) for i in range(sweeps))]
    for size in sizes:
        filling.fill(store, size)
    jobs = sum(size.jobs for size in sizes)
    yield f"{len(sizes)} sweeps, {jobs:,} jobs, filled in {time.perf_counter() - begun:.0f} s; {load_words()}"
    with service.running(url, home, 1) as where, chromium() as browser:
        root = f"http://127.0.0.1:{where.port}"
        yield f"Chromium {browser.version}, {os.cpu_count()} cores, {platform.machine()}; {load_words()}"
        yield from _visits(browser, root, rounds)
        yield from _tabs(browser, root, rounds)
        yield from _live(browser, root, store, seconds)
    yield load_words()
    store.close()


def _visits(browser: Any, root: str, rounds: int) -> Iterator[Figure]:
    """First visits, each with an empty cache of its own; the first round warms the service."""
    page = _rounds(browser, f"{root}/sweeps/page", "heads-delta", rounds)
    yield _figure("sweep of 875 jobs: first contentful paint", page, "painted", 500)
    yield _figure("sweep of 875 jobs: U drawn", page, "drawn", 1000)
    yield _figure("sweep of 875 jobs: page answered", page, "answered", None)
    kilobytes = max(times["kilobytes"] for times in page)
    yield Figure("sweep of 875 jobs: sent, compressed", kilobytes, "KB", at_most=700)
    many = _rounds(browser, f"{root}/sweeps/many", "heads-delta", rounds)
    yield _figure("sweep of 2,000 jobs: U drawn", many, "drawn", 1000)
    listing = _rounds(browser, f"{root}/", None, 3 * rounds)
    times = Times([visited["answered"] for visited in listing])
    yield Figure(
        "list of sweeps: answered, p95", times.quantile(0.95), "ms", at_most=300, detail=times.words()
    )


def _rounds(browser: Any, url: str, plot: str | None, rounds: int) -> list[dict[str, float]]:
    found = []
    for _ in range(rounds + 1):
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        found.append(visit(context.new_page(), url, plot))
        context.close()
    return found[1:]


def _figure(name: str, visits: Sequence[dict[str, float]], key: str, at_most: float | None) -> Figure:
    times = Times([visited[key] for visited in visits])
    return Figure(
        name, times.median, "ms", at_most=at_most, detail=f"worst {times.p99:.0f}, n = {len(visits)}"
    )


def _tabs(browser: Any, root: str, rounds: int) -> Iterator[Figure]:
    """From the click to the last figure of the next tab, one tab after another."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    visit(page, f"{root}/sweeps/page", "heads-delta")
    by_tab = {tab: Times() for tab in TABS}
    for round_ in range(rounds + 1):
        for tab in TABS:
            link = page.locator(".tabs").get_by_role("link", name=tab, exact=True)
            taken = link.evaluate(_SWITCH)
            if round_:  # the first round warms the service
                by_tab[tab].values.append(taken)
    context.close()
    for tab, times in by_tab.items():
        worst = f"worst {times.p99:.0f}, n = {len(times.values)}"
        yield Figure(f"switch to the tab {tab}", times.median, "ms", at_most=300, detail=worst)


_SWITCH = """(link) => new Promise((resolve) => {
  const begun = performance.now();
  addEventListener("headcount:shown", () => resolve(performance.now() - begun), { once: true });
  link.click();
})"""


def _live(browser: Any, root: str, store: Store, seconds: int) -> Iterator[Figure]:
    """Processor time of a page that follows 1,000 events a minute of its sweep."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    visit(page, f"{root}/sweeps/page", "heads-delta")
    wait_until(page, "document.querySelector('[data-live-name]').textContent === 'live'")
    writing = Thread(target=writer.write, args=(store, "page", seconds, EVENTS_PER_MINUTE // 60))
    before, begun = renderer_seconds(browser), time.perf_counter()
    writing.start()
    while writing.is_alive():
        page.wait_for_timeout(500)
    used, took = renderer_seconds(browser) - before, time.perf_counter() - begun
    writing.join()
    refreshed = page.evaluate("Number(document.body.dataset.refreshed ?? 0)")
    context.close()
    detail = f"{refreshed} refreshes in {took:.0f} s"
    yield Figure(
        "live page under 1,000 events a minute", 100 * used / took, "% core", at_most=10, detail=detail
    )
