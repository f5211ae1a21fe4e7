"""Every page in both themes and at three widths: it draws, fits, breaks no policy and is accessible."""

from typing import Literal

import pytest
from browser_service import OpenPage, Service
from playwright.sync_api import Page, expect
from sqlalchemy import select

from headcount.orchestrator.store.models import Job

PAGES = {
    "sweeps": "/",
    "sweep": "/sweeps/head-count",
    "sweep in flight": "/sweeps/in-flight?y=loss&train.peak_lr=1e-3",
    "paired": "/sweeps/in-flight?tab=paired&train.peak_lr=1e-3",
    "grid": "/sweeps/in-flight?tab=grid&y=loss&rows=train.peak_lr",
    "depth": "/sweeps/head-count?tab=depth",
    "timeline": "/sweeps/in-flight?tab=timeline",
    "plan": "/sweeps/in-flight?tab=plan",
    "learning rates": "/sweeps/in-flight?tab=rates&y=delta&model.kv_heads=4",
    "curves": "/sweeps/in-flight?tab=curves&y=loss&model.kv_heads=4&train.peak_lr=1e-3",
    "speed": "/sweeps/head-count?tab=speed",
    "jobs": "/sweeps/in-flight?tab=jobs",
    "submit": "/submit",
    "compare": "/compare?sweep=head-count&sweep=in-flight&y=loss&train.peak_lr=best",
    "compare cells": "/compare?cell=1&cell=4&y=delta",
    "reference": "/reference?sweep=head-count&table=head_count_by_scale",
    "finished job": None,
    "diverged job": None,
    "failed job": None,
    "queued job": None,
    "not found": "/sweeps/head-cont",
    "login": "/login",
}


@pytest.fixture(params=PAGES)
def address(request: pytest.FixtureRequest, service: Service) -> str:
    path = PAGES[request.param]
    if path is None:
        state = request.param.partition(" ")[0]
        with service.store.read() as session:
            path = f"/jobs/{session.scalars(select(Job.id).where(Job.state == state)).first()}"
    return service.url + path


@pytest.mark.parametrize("width", [390, 1280, 2560])
def test_a_page_draws_and_fits(open_page: OpenPage, address: str, width: int) -> None:
    page = open_page(address, width=width)
    for theme in ("light", "dark"):
        turn_to(page, theme)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.locator(".plot:not(:has(.main-svg))").count() == 0
    assert page.locator(".modebar").count() == 0
    assert page.locator("h1").count() == 1


@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_no_violation(open_page: OpenPage, address: str, width: int) -> None:
    page = open_page(address, width=width)
    page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    for theme in ("light", "dark"):
        turn_to(page, theme)
        assert violations(page) == []


def turn_to(page: Page, theme: Literal["light", "dark"]) -> None:
    """Change the system's theme, and wait until every figure has followed."""
    page.emulate_media(color_scheme=theme)
    expect(page.locator(f".plot:not([data-drawn={theme}])")).to_have_count(0)


def violations(page: Page) -> list[tuple[str, list[str]]]:
    """What axe finds against any of its rules, with where."""
    found = page.evaluate("axe.run()")
    assert len(found["passes"]) > 10
    return [(v["id"], [n["html"][:200] for n in v["nodes"]]) for v in found["violations"]]


def test_the_empty_list_shows_how_to_submit(open_page: OpenPage, empty_service: Service) -> None:
    page = open_page(empty_service.url, width=390)
    assert page.locator("h1").inner_text() == "No sweep yet"
    assert page.get_by_text("headcount run quickstart").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert violations(page) == []


def test_without_a_script_every_number_is_there(service: Service, open_page: OpenPage) -> None:
    page = open_page(service.url, java_script_enabled=False)
    page.get_by_role("link", name="in-flight").click()
    page.get_by_role("link", name="Paired").click()
    assert page.get_by_role("group", name="Every cell against its control").locator("tr").count() == 37
    page.get_by_label("Peak learning rate").first.select_option("1e-3")
    page.get_by_role("button", name="Show").click()
    assert page.url.endswith("/sweeps/in-flight?tab=paired&train.peak_lr=1e-3&bars=t")
