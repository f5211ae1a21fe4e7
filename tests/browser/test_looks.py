"""What only a drawn page shows: marks and fields that stand on one line with what is beside them."""

from browser_service import OpenPage, Service
from playwright.sync_api import Page

from headcount.orchestrator.store.models import JOB_STATES

BASELINES = """
(states) => states.map((state) => {
  const line = document.createElement("p");
  line.innerHTML = `<span>word</span> <span class="state ${state}"><b>word</b></span>`;
  document.querySelector("main").append(line);
  const [plain, marked] = [line.firstChild, line.querySelector("b")].map((part) => {
    const mark = document.createElement("i");  // an empty inline block stands on the baseline
    mark.style.display = "inline-block";
    part.append(mark);
    return mark.getBoundingClientRect().bottom;
  });
  return Math.round(marked - plain);
})
"""


def test_every_state_stands_on_the_line_of_its_row(service: Service, open_page: OpenPage) -> None:
    page = open_page(service.url)
    states = [*JOB_STATES, "done", "stopped", "missing"]
    assert dict(zip(states, page.evaluate(BASELINES, states), strict=True)) == dict.fromkeys(states, 0)


def edges(page: Page) -> set[tuple[int, int]]:
    """Top and bottom of each field that filters, in one row."""
    fields = page.locator(".filters").first.locator(
        "input:visible, select:visible, button:visible, .choice:visible"
    )
    boxes = [field.bounding_box() for field in fields.all()]
    assert len(boxes) > 1
    return {(round(box["y"]), round(box["y"] + box["height"])) for box in boxes if box}


def test_the_fields_of_a_row_have_one_height(service: Service, open_page: OpenPage) -> None:
    for path in ("/", "/sweeps/in-flight?y=delta&train.peak_lr=1e-3", "/compare", "/reference"):
        assert len(edges(open_page(service.url + path))) == 1, path


def test_a_sweep_has_most_of_a_narrow_line(service: Service, open_page: OpenPage) -> None:
    page = open_page(service.url, width=390)
    name = page.locator(".sweeps tbody th").first.bounding_box()
    assert name is not None
    assert name["width"] > 390 / 2
