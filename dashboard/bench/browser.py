"""A Chromium for a benchmark: visits that are timed by the page itself, and the time that a page computes."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headcount.trainer.errors import UserError

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]

TIMES = """(plot) => ({
  answered: performance.getEntriesByType("navigation")[0].responseEnd,
  painted: performance.getEntriesByName("first-contentful-paint")[0].startTime,
  drawn: plot ? performance.getEntriesByName(`drawn:${plot}`)[0].startTime : 0,
  kilobytes: ["navigation", "resource"].flatMap((kind) => performance.getEntriesByType(kind))
    .reduce((sum, entry) => sum + entry.transferSize, 0) / 1000,
})"""
"""Milliseconds from the start of the navigation, and what was sent."""


@contextmanager
def chromium() -> Iterator[Any]:
    """Chromium: `HEADCOUNT_CHROMIUM`, or the one on the PATH. Raises `UserError` without one."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise UserError(
            "this benchmark drives a browser through playwright: pip install 'headcount[dev]'"
        ) from error
    found = os.environ.get("HEADCOUNT_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        raise UserError("there is no chromium on the PATH; install one, or set HEADCOUNT_CHROMIUM to it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield browser
        browser.close()


def visit(page: Any, url: str, plot: str | None) -> dict[str, float]:
    """Go to a page, wait until a figure of it is drawn, and ask when what happened."""
    page.goto(url)
    if plot:
        page.locator(f"#{plot}[data-drawn]").wait_for()
    wait_until(page, "performance.getEntriesByName('first-contentful-paint').length > 0")
    found: dict[str, float] = page.evaluate(TIMES, plot)
    return found


def wait_until(page: Any, condition: str) -> None:
    """Ask the page until a condition holds: it lets nothing evaluate strings by itself."""
    while not page.evaluate(condition):
        page.wait_for_timeout(20)


def renderer_seconds(browser: Any) -> float:
    """Processor time that the browser's pages have used so far."""
    session = browser.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    return float(sum(process["cpuTime"] for process in processes if process["type"] == "renderer"))
