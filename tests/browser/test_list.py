"""The list of sweeps: searched as one types, ordered, compared."""

import pytest
from browser_service import OpenPage, Service
from playwright.sync_api import Page, expect


def names(page: Page) -> list[str]:
    return page.locator(".sweeps .title").all_inner_texts()


def test_it_follows_the_search_box_and_its_address_is_the_view(service: Service, open_page: OpenPage) -> None:
    page = open_page(service.url)
    assert page.url.endswith("/?q=&state=&owner=&sort=-submitted")
    assert names(page) == ["in-flight", "head-count"]
    page.get_by_label("Search").press_sequentially("flight", delay=20)
    expect(page.locator(".sweeps .title")).to_have_count(1)
    assert page.url.endswith("/?q=flight&state=&owner=&sort=-submitted")
    assert page.evaluate("document.activeElement.name") == "q"
    page.reload()
    assert (names(page), page.get_by_label("Search").input_value()) == (["in-flight"], "flight")
    page.get_by_role("link", name="Show all").click()
    page.get_by_role("columnheader", name="Best cell").get_by_role("link").click()
    page.wait_for_url("**/?q=&state=&owner=&sort=delta")
    assert page.locator("[aria-sort]").inner_text().startswith("Best cell")
    page.locator("select[name=state]").select_option("done")
    page.wait_for_url("**/?q=&state=done&owner=&sort=delta")
    assert names(page) == ["head-count"]
    page.go_back()
    page.wait_for_url("**/?q=&state=&owner=&sort=delta")


def test_ticked_sweeps_are_compared(service: Service, open_page: OpenPage) -> None:
    page = open_page(service.url)
    for name in ("in-flight", "head-count"):
        page.get_by_label(f"Compare {name}").check()
    page.get_by_role("button", name="Compare the ticked ones").click()
    page.wait_for_url("**/compare?sweep=in-flight&sweep=head-count&y=delta&train.peak_lr=best")
    expect(page.locator(".plot[data-drawn]")).to_have_count(2)
    page.get_by_role("link", name="curves of H 8 · KV 4 · LR 1e-3").click()
    expect(page.get_by_role("heading", name="Compare cells")).to_be_visible()
    page.get_by_role("link", name="Leave out head-count: H 8 · KV 4 · LR 1e-3").click()
    expect(page.locator(".sides li")).to_have_count(1)


@pytest.mark.parametrize("width", [390, 1280])
def test_a_drawing_stands_in_each_line_with_a_result(
    service: Service, open_page: OpenPage, width: int
) -> None:
    page = open_page(service.url, width=width)
    drawn = page.locator(".spark:visible")
    expect(drawn).to_have_count(2)
    assert "lowest" not in (drawn.first.get_attribute("aria-label") or "")
    assert (drawn.first.get_attribute("aria-label") or "").startswith("Delta by Routing heads H: ")
