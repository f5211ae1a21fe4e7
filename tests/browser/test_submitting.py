"""A sweep written in the browser: checked as one types, its problem marked, submitted by keyboard."""

from collections.abc import Iterator

import pytest
from browser_service import OpenPage, Service, serving
from playwright.sync_api import expect
from sqlalchemy import select

from headcount.orchestrator.store.models import Sweep
from headcount.orchestrator.store.tokens import create_token

YAML = """\
name: typed
job:
  model: {residual: mhar}
  train: {steps: 40}
axes:
  model.routing_heads: [1, 4]
seeds: [0, 1]
"""


@pytest.fixture
def closed_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str]]:
    """A service that asks for a token, with one that may submit."""
    with serving(tmp_path_factory.mktemp("closed"), lambda store: None) as service:
        with service.store.write() as session:
            token = create_token(session, "ada", "submit", expires=None, by="tester")
        yield service, token


def test_from_a_problem_at_its_line_to_a_sweep(
    closed_service: tuple[Service, str], open_page: OpenPage
) -> None:
    service, token = closed_service
    page = open_page(f"{service.url}/submit")
    page.get_by_label("Token").fill(token)
    page.keyboard.press("Enter")
    page.wait_for_url("**/submit")
    editor = page.get_by_role("textbox", name="The sweep file")
    expect(page.locator("[data-planned]")).to_contain_text("quickstart: 20 jobs")
    editor.fill(YAML.replace("mhar}", "mhra}"))
    expect(page.locator(".trouble")).to_contain_text("did you mean 'mhar'?")
    expect(editor).to_have_attribute("aria-invalid", "true")
    assert page.locator(".gutter").inner_text().split() == [str(i) for i in range(1, 9)]
    expect(page.get_by_role("status")).to_contain_text("Line 3")

    editor.press("Control+Enter")  # is not submitted: the keyboard is led to what is wrong
    expect(page.get_by_role("button", name="Go to the line")).to_be_focused()
    page.keyboard.press("Enter")
    expect(editor).to_be_focused()
    assert page.evaluate("getSelection().toString()") == "  model: {residual: mhra}"
    page.keyboard.insert_text("  model: {residual: mhar}")
    expect(page.locator("[data-planned]")).to_contain_text("typed: 6 jobs, all of them new")
    expect(editor).not_to_have_attribute("aria-invalid", "true")

    editor.press("Control+Enter")
    page.wait_for_url("**/sweeps/typed*")
    with service.store.read() as session:
        assert session.execute(select(Sweep.yaml, Sweep.owner)).all() == [(YAML, "ada")]
    page.goto(f"{service.url}/submit?from=typed")
    expect(page.locator("[data-planned]")).to_contain_text("none of them new")


def test_what_is_written_outlives_the_login(closed_service: tuple[Service, str], open_page: OpenPage) -> None:
    service, token = closed_service
    page = open_page(f"{service.url}/submit")
    page.get_by_label("Token").fill(token)
    page.keyboard.press("Enter")
    expect(page.locator("[data-planned]")).to_be_visible()
    page.context.clear_cookies()
    page.get_by_role("textbox", name="The sweep file").fill(YAML)
    expect(page.locator("[data-checked]")).to_contain_text("Your login has ended")
    page.locator("[data-checked]").get_by_role("link", name="Log in").click()
    page.get_by_label("Token").fill(token)
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="The sweep file")).to_have_value(YAML)
    expect(page.locator("[data-planned]")).to_contain_text("typed: 6 jobs")


def test_without_a_script_the_plan_is_shown(open_page: OpenPage, empty_service: Service) -> None:
    page = open_page(f"{empty_service.url}/submit", java_script_enabled=False)
    page.get_by_role("textbox", name="The sweep file").fill(YAML)
    page.get_by_role("button", name="Show the plan").click()
    expect(page.locator("[data-planned]")).to_contain_text("typed: 6 jobs, all of them new")
    assert page.get_by_role("textbox", name="The sweep file").input_value() == YAML
