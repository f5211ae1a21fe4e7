"""A browser logs in with a token, follows a sweep live, and is out again after the logout."""

from collections.abc import Iterator

import pytest
from browser_service import OpenPage, Service, fill, serving
from playwright.sync_api import expect

from headcount.orchestrator.store.tokens import create_token


@pytest.fixture
def closed_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str]]:
    """A service that asks for a token, and the token."""
    with serving(tmp_path_factory.mktemp("closed"), fill) as service:
        with service.store.write() as session:
            text = create_token(session, "ada", "read", expires=None, by="tester")
        yield service, text


def test_in_with_a_token_and_out_again(
    closed_service: tuple[Service, str], open_page: OpenPage, faults: list[str]
) -> None:
    service, text = closed_service
    page = open_page(f"{service.url}/sweeps/in-flight")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.get_by_label("Token").fill(text)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/sweeps/in-flight?*")
    expect(page.get_by_role("heading", name="in-flight")).to_be_visible()
    expect(page.locator("[data-live-name]")).to_have_text("live")  # the stream takes the cookie
    assert page.evaluate("document.cookie") == ""
    page.goto(f"{service.url}/submit")
    expect(page.get_by_role("alert")).to_contain_text("may read, but not submit")
    expect(page.get_by_role("button", name="Submit", exact=True)).to_be_disabled()
    page.evaluate("document.querySelector('form.editing').submit()")
    expect(page.get_by_role("heading", name="Not allowed")).to_be_visible()
    assert [fault for fault in faults if "403" not in fault] == []
    faults.clear()
    page.get_by_role("link", name="Log in with another token").click()
    out = page.get_by_role("button", name="Log out")
    box = out.bounding_box()
    assert box is not None
    assert box["width"] < 200  # of its word, not of its column
    out.click()
    page.goto(service.url)
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
