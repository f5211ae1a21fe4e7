"""A report from the disk of a machine without a network."""

from pathlib import Path

import pytest
from browser_service import OpenPage, Service
from playwright.sync_api import expect

from headcount.dashboard.report import report


@pytest.fixture(scope="module")
def file(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "report.html"
    with service.store.read() as session:
        file.write_text(report(session, "in-flight"), encoding="utf-8")
    return file


@pytest.mark.parametrize("width", [390, 1280])
def test_it_draws_without_a_network(open_page: OpenPage, file: Path, width: int) -> None:
    page = open_page(file.as_uri(), width=width, offline=True)
    drawn = page.locator(".plot[data-drawn=light]").count()
    assert drawn == page.locator(".plot:visible").count() == 13
    page.locator("summary", has_text="Heads: Loss").first.click()
    page.locator("#heads-loss[data-drawn]").wait_for()
    page.emulate_media(color_scheme="dark")
    expect(page.locator(".plot[data-drawn=dark]")).to_have_count(drawn + 1)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate("axe.run()")["violations"] == []


def test_its_theme_and_exports_work(open_page: OpenPage, file: Path) -> None:
    page = open_page(file.as_uri(), offline=True)
    page.locator("[data-theme-button]").click()
    assert page.locator("[data-theme-name]").inner_text() == "light"
    with page.expect_download() as download:
        page.locator("[data-export=svg]").first.click()
    assert download.value.suggested_filename == "in-flight-heads-delta.svg"
