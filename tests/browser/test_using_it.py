"""Keyboard, theme, address and exports."""

import re
from pathlib import Path

import pytest
from browser_service import OpenPage, Service
from playwright.sync_api import Page, expect

SWEEP = "/sweeps/in-flight?y=delta&train.peak_lr=1e-3"
REST = "&lines=model.kv_heads&bars=t&reference=none"


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.textContent.trim().replace(/\\s+/g, ' ')"))


def test_the_keyboard_reaches_everything_in_order(service: Service, open_page: OpenPage) -> None:
    page = open_page(service.url + SWEEP)
    reached = []
    for _ in range(35):
        page.keyboard.press("Tab")
        reached.append(focused(page))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", reached[-1]
    assert reached == [
        "Skip to the content",
        "Headcount",
        "Sweeps",
        "Compare",
        "Reference",
        "Submit",
        "API",
        "Live updates: live",
        "Theme: system",
        "Sweeps",
        "Heads",
        "Grid",
        "Paired",
        "Learning rate",
        "Curves",
        "Depth",
        "Speed",
        "Jobs",
        "Timeline",
        "Plan",
        "Delta",
        "Loss",
        "5e-41e-3",
        "KV headsPeak learning rate",
        "± 1 SD± 1 SEt intervalSimultaneous",
        "NonePaper",
        "Delta to the control by routing heads H as SVG",
        "Delta to the control by routing heads H as PNG",
        "Delta to the control by routing heads H as PDF",
        "Delta to the control by routing heads H as CSV",
        "Delta to the control by routing heads H as TeX",
        "Delta to the control by routing heads H as Table",
        "Delta to the control by routing heads H: copy Link",
        "Delta to the control by routing heads H: all numbers as All data",
        "Data table of Delta to the control by routing heads H",
    ]


def test_a_tab_keeps_its_choice_through_filters_and_back(service: Service, open_page: OpenPage) -> None:
    page = open_page(service.url + SWEEP)
    page.evaluate("window.notReloaded = true")
    page.get_by_role("link", name="Curves").click()
    page.wait_for_url("**?tab=curves&y=delta&model.kv_heads=4&train.peak_lr=1e-3&smooth=0")
    page.get_by_label("KV heads").select_option("2")
    page.wait_for_url("**?tab=curves&y=delta&model.kv_heads=2&train.peak_lr=1e-3&smooth=0")
    page.get_by_role("link", name="Loss", exact=True).click()
    page.wait_for_url("**?tab=curves&y=loss&model.kv_heads=2&train.peak_lr=1e-3&smooth=0")
    assert page.get_by_role("heading", name="Validation loss by step").is_visible()
    page.go_back()
    page.wait_for_url("**?tab=curves&y=delta&model.kv_heads=2&train.peak_lr=1e-3&smooth=0")
    expect(page.locator(".tabs [aria-current]")).to_have_text("Curves")
    expect(page.get_by_role("heading", name="Delta to the control by step")).to_be_visible()
    assert page.evaluate("window.notReloaded")


def test_the_skip_link_leads_to_the_content(service: Service, open_page: OpenPage) -> None:
    page = open_page(service.url + SWEEP)
    page.keyboard.press("Tab")
    assert page.locator(".skip").bounding_box()["y"] >= 0  # type: ignore[index]
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_the_chosen_theme_persists_over_pages_and_figures(service: Service, open_page: OpenPage) -> None:
    page = open_page(service.url + SWEEP)
    line = page.locator("#heads-delta .scatterlayer path.point").first
    assert "rgb(0, 114, 178)" in (line.get_attribute("style") or "")
    button = page.locator("[data-theme-button]")
    button.click()
    button.click()
    expect(page.locator("#heads-delta")).to_have_attribute("data-drawn", "dark")
    assert "rgb(86, 180, 233)" in (line.get_attribute("style") or "")
    page.get_by_role("link", name="Loss", exact=True).click()
    expect(page.locator("#heads-loss")).to_have_attribute("data-drawn", "dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 21, 25)"
    page.locator("[data-theme-button]").click()
    assert page.locator("[data-theme-name]").inner_text() == "system"
    expect(page.locator("#heads-loss")).to_have_attribute("data-drawn", "light")


def test_the_address_is_the_whole_view(service: Service, open_page: OpenPage) -> None:
    page = open_page(service.url + "/sweeps/in-flight")
    assert page.url.endswith(f"?y=delta&train.peak_lr=5e-4{REST}")
    page.get_by_label("Peak learning rate").first.select_option("1e-3")
    page.wait_for_url(f"**?y=delta&train.peak_lr=1e-3{REST}")
    page.get_by_role("link", name="Loss", exact=True).click()
    page.wait_for_url(f"**?y=loss&train.peak_lr=1e-3{REST}")
    caption = page.locator("figcaption").first.inner_text()
    page.reload()
    assert page.locator("figcaption").first.inner_text() == caption
    page.go_back()
    page.wait_for_url(f"**?y=delta&train.peak_lr=1e-3{REST}")


@pytest.mark.parametrize("form", ["svg", "png"])
def test_a_figure_is_exported_in_the_light_colours(
    service: Service, open_page: OpenPage, tmp_path: Path, form: str
) -> None:
    page = open_page(service.url + "/sweeps/head-count?y=delta", theme="dark")
    with page.expect_download() as download:
        page.locator(f"[data-export={form}][data-plot=heads-delta]").click()
    assert download.value.suggested_filename == f"head-count-heads-delta.{form}"
    file = tmp_path / "figure"
    download.value.save_as(file)
    content = file.read_bytes()
    if form == "png":
        assert content.startswith(b"\x89PNG")
        assert int.from_bytes(content[16:20]) == 1920
    else:
        drawn = content.decode()
        assert "rgb(0, 114, 178)" in drawn
        assert "KV 4" in drawn.replace("\u00a0", " ")
        assert not re.search(r"(?:href|src)=.http", drawn)


@pytest.mark.parametrize(
    ("form", "start"), [("PDF", b"%PDF"), ("CSV", b"series,"), ("Table", b"\\begin{table}")]
)
def test_a_figure_is_fetched_for_a_paper(
    service: Service, open_page: OpenPage, tmp_path: Path, form: str, start: bytes
) -> None:
    page = open_page(service.url + "/sweeps/head-count?tab=paired&bars=t")
    with page.expect_download() as download:
        page.get_by_role("link", name=f"Delta of every cell to its control as {form}").click()
    file = tmp_path / "figure"
    download.value.save_as(file)
    assert file.read_bytes().startswith(start)


def test_the_link_to_a_figure_is_copied(service: Service, open_page: OpenPage) -> None:
    page = open_page(
        service.url + "/sweeps/head-count?tab=paired&bars=t",
        permissions=["clipboard-read", "clipboard-write"],
    )
    button = page.locator("[data-copy=paired]")
    button.click()
    expect(button).to_contain_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == f"{page.url}#paired"


def test_times_are_in_the_viewers_zone(service: Service, open_page: OpenPage) -> None:
    page = open_page(service.url + SWEEP, timezone_id="Asia/Tokyo", locale="en-GB")
    time = page.locator("main time").first
    assert time.get_attribute("datetime") == "2026-03-01T12:00:00Z"
    assert time.inner_text() == "1 Mar 2026, 21:00"
    assert "21:00:00" in (time.get_attribute("title") or "")


def test_the_watch_sees_what_a_page_must_not_do(
    service: Service, open_page: OpenPage, request: pytest.FixtureRequest
) -> None:
    page = open_page(service.url)
    page.evaluate(
        "document.head.append(Object.assign(document.createElement('style'), {textContent: 'a{}'}))"
    )
    page.wait_for_timeout(100)
    faults = request.getfixturevalue("faults")
    assert any("policy violation: style-src-elem inline" in fault for fault in faults)
    faults.clear()
