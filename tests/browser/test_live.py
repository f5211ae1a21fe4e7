"""The page follows the store by itself, and moves nothing that the viewer has set."""

from collections.abc import Iterator

import pytest
from browser_service import OpenPage, Service, fill, serving
from playwright.sync_api import Page, expect
from sqlalchemy import select

from headcount.api.routes.events import MAX_STREAMS
from headcount.orchestrator.store.journal import announce_job
from headcount.orchestrator.store.models import Job

SWEEP = "/sweeps/in-flight?y=loss&train.peak_lr=1e-3"
MEAN = "3.2679"
"""Of the running job's cell, once that has finished at 3.1111."""


@pytest.fixture
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A store that the test may write."""
    with serving(tmp_path_factory.mktemp("live"), fill) as service:
        yield service


def finish_one(service: Service, tail_mean: float = 3.25) -> None:
    """The running job finishes, as the scheduler would write it."""
    with service.store.write() as session:
        job = session.scalars(select(Job).where(Job.state == "running")).one()
        job.state, job.tail_mean, job.step = "finished", tail_mean, 400
        session.flush()
        announce_job(session, job.id, "settled", state="finished")


def live(page: Page) -> None:
    expect(page.locator("[data-live-name]")).to_have_text("live")


def test_a_result_appears_without_a_reload(service: Service, open_page: OpenPage) -> None:
    page = open_page(service.url + SWEEP)
    live(page)
    page.evaluate("window.notReloaded = true")
    before = page.locator("#heads-loss").get_attribute("aria-label")
    finish_one(service, 3.1111)
    expect(page.locator("main")).to_contain_text(MEAN)
    expect(page.locator("#heads-loss")).not_to_have_attribute("aria-label", before or "")
    expect(page.get_by_text("Data version 8.").first).to_be_visible()
    assert page.evaluate("window.notReloaded")
    assert service.streams.open == 1


def test_the_list_follows_too(service: Service, open_page: OpenPage) -> None:
    page = open_page(service.url)
    live(page)
    expect(page.locator("main")).to_contain_text("104 of 108 jobs · 1 running")
    finish_one(service)
    expect(page.locator("main")).to_contain_text("105 of 108 jobs · 1 diverged")


def test_an_update_moves_nothing(service: Service, open_page: OpenPage) -> None:
    page = open_page(service.url + SWEEP)
    live(page)
    area = page.locator("#heads-loss .nsewdrag").bounding_box()
    assert area
    page.mouse.move(area["x"] + 0.3 * area["width"], area["y"] + 0.2 * area["height"])
    page.mouse.down()
    page.mouse.move(area["x"] + 0.8 * area["width"], area["y"] + 0.9 * area["height"], steps=5)
    page.mouse.up()
    page.locator("#heads-loss .legendtoggle").first.click()
    page.wait_for_timeout(500)  # a click on the legend waits for a second one
    page.locator("summary", has_text="Data table").first.click()
    page.get_by_role("group", name="Data table of Loss by").evaluate("(box) => { box.scrollTop = 120; }")
    page.get_by_role("link", name="Delta", exact=True).focus()
    page.evaluate("scrollTo(0, 333)")
    state = """() => {
      const plot = document.getElementById("heads-loss");
      return {
        ranges: [plot._fullLayout.xaxis.range, plot._fullLayout.yaxis.range],
        hidden: plot._fullData.filter((trace) => trace.visible !== true).length,
        open: document.querySelector("figure details").open,
        inner: document.querySelector("[aria-label^='Data table of Loss by']").scrollTop,
        scroll: scrollY,
        focus: document.activeElement.textContent,
        theme: plot.dataset.drawn,
      };
    }"""
    before = page.evaluate(state)
    assert before["hidden"] > 0
    assert before["ranges"][0] == pytest.approx([-0.21 + 0.3 * 4.42, -0.21 + 0.8 * 4.42], abs=0.05)
    assert (before["open"], before["inner"], before["scroll"]) == (True, 120, 333)
    finish_one(service, 3.1111)
    expect(page.locator("main")).to_contain_text(MEAN)
    page.wait_for_function("document.body.dataset.refreshed >= 1")
    assert page.evaluate(state) == before


def test_a_paused_page_stands_still_until_it_goes_on(service: Service, open_page: OpenPage) -> None:
    page = open_page(service.url + SWEEP)
    live(page)
    button = page.locator("[data-live-button]")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")
    finish_one(service, 3.1111)
    page.wait_for_timeout(2500)
    expect(page.locator("main")).not_to_contain_text(MEAN)
    button.click()
    expect(page.locator("main")).to_contain_text(MEAN)


def test_without_a_free_stream_the_page_asks_by_itself(
    service: Service, open_page: OpenPage, faults: list[str]
) -> None:
    service.streams.open = MAX_STREAMS
    page = open_page(service.url + SWEEP)
    expect(page.locator("[data-live-name]")).to_have_text("polling")
    finish_one(service, 3.1111)
    expect(page.locator("main")).to_contain_text(MEAN, timeout=20_000)
    # the browser reports the refused stream by itself
    assert [fault for fault in faults if "503" not in fault] == []
    faults.clear()
    service.streams.open = 0


def test_a_storm_of_events_fetches_seldom(service: Service, open_page: OpenPage) -> None:
    page = open_page(service.url + SWEEP)
    live(page)
    fetched: list[str] = []
    page.on(
        "request", lambda request: fetched.append(request.url) if request.resource_type == "fetch" else None
    )
    with service.store.read() as session:
        job_id = session.scalars(select(Job.id).where(Job.state == "running")).one()
    for step in range(60):
        with service.store.write() as session:
            announce_job(session, job_id, "evaluated", step=step)
        page.wait_for_timeout(50)
    assert 1 <= len(fetched) <= 4
