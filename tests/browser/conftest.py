"""A real Chromium, and a page that is watched for what it must not do."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from browser_service import OpenPage, Service, fill, serving
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium: `HEADCOUNT_CHROMIUM`, or the one on the PATH."""
    found = os.environ.get("HEADCOUNT_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        pytest.exit(
            "these tests drive a real Chromium, and there is none on the PATH: "
            "`apt-get install -y chromium`, or set HEADCOUNT_CHROMIUM to a Chrome or Chromium",
            returncode=2,
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Read by every test, written by none."""
    with serving(tmp_path_factory.mktemp("service"), fill) as service:
        yield service


@pytest.fixture(scope="session")
def empty_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Before the first sweep."""
    with serving(tmp_path_factory.mktemp("empty"), lambda store: None) as service:
        yield service


@dataclass
class Watch:
    """Notes what one page does that it must not do."""

    address: str
    faults: list[str]

    def console(self, message: ConsoleMessage) -> None:
        # a browser reports the status of a page that is not found by itself
        if message.type in ("error", "warning") and message.location["url"] != self.address:
            self.faults.append(f"console {message.type}: {message.text}")

    @property
    def home(self) -> str:
        parts = urlsplit(self.address)
        return f"{parts.scheme}://{parts.netloc}"

    def request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob") and f"{parts.scheme}://{parts.netloc}" != self.home:
            self.faults.append(f"request to another host: {request.url[:200]}")


VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) => {
  console.error(`policy violation: ${event.violatedDirective} ${event.blockedURI}`);
});
"""


@pytest.fixture
def faults() -> list[str]:
    """What the pages of a test did that they must not do."""
    return []


@pytest.fixture
def open_page(browser: Browser, faults: list[str]) -> Iterator[OpenPage]:
    """Opens an address and waits until its figures are drawn. No page may have had a fault at the end."""
    contexts: list[Any] = []

    def open_page(url: str, *, theme: str = "light", width: int = 1280, **options: Any) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme, **options)
        contexts.append(context)
        watch = Watch(url, faults)
        page = context.new_page()
        page.add_init_script(VIOLATIONS)
        page.add_init_script(path=HERE / "axe.min.js")
        page.on("console", watch.console)
        page.on("pageerror", lambda error: watch.faults.append(f"script error: {error}"))
        page.on("request", watch.request)
        page.goto(url)
        plots = page.locator(".plot:visible").all() if options.get("java_script_enabled", True) else []
        for plot in plots:
            plot.and_(page.locator("[data-drawn]")).wait_for(timeout=20_000)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert faults == []
