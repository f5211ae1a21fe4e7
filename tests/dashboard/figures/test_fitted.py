import math

import pytest
from sqlalchemy.orm import Session
from table_rows import control, row

from headcount.api.results import CurveLine, LineShape, ablation_table, paired_statistics
from headcount.dashboard.figures.fitted import minimum_of
from headcount.dashboard.pages.sweep import sweep_page
from headcount.sweeps.statistics import parabola

KV = {"model.kv_heads": 4}
POSITIONS = [0.0, 1.0, 2.0, 3.0]


def line_of(losses: list[list[float]]) -> tuple[CurveLine, LineShape]:
    """H = 1, 2, 4, 8 with these losses by seed, and the parabola that the statistics fit to them."""
    points = tuple(row(i, dict(enumerate(values))) for i, values in enumerate(losses))
    fit = parabola([1, 2, 4, 8], losses)  # type: ignore[arg-type]
    return CurveLine(KV, points, (control(),) * 4), LineShape(KV, None, "", parabola=fit)


def test_the_minimum_lies_on_the_parabola_through_the_points() -> None:
    """Losses (x − 1.5)² / 10 + 3 and a little noise of mean 0 over the seeds: the minimum is at H = 2^1.5."""
    noise = [[0.001, -0.001], [-0.001, 0.001], [0.001, -0.001], [-0.001, 0.001]]
    losses = [[(x - 1.5) ** 2 / 10 + 3 + e for e in noise[x]] for x in range(4)]
    line, shape = line_of(losses)
    means = [(float(x), sum(values) / 2) for x, values in enumerate(losses)]
    found = minimum_of(line, POSITIONS, [shape], means)
    assert found is not None
    assert found.position == pytest.approx(1.5)
    assert found.height == pytest.approx(3.0)
    assert shape.parabola
    assert shape.parabola.low
    assert found.low == pytest.approx(math.log2(shape.parabola.low))
    assert found.words.startswith("2.83 [2.")
    deltas = [(at, mean - 3.2) for at, mean in means]
    shifted = minimum_of(line, POSITIONS, [shape], deltas)
    assert shifted is not None
    assert shifted.height == pytest.approx(-0.2)


@pytest.mark.parametrize("sign", [1, -1])
def test_without_a_shown_minimum_inside_there_is_no_mark(sign: int) -> None:
    """A straight line has none, and a hill has a maximum."""
    losses = [
        [3 + sign * 0.1 * x * (1 if sign > 0 else x) + e for e in (0.002, -0.001 * x)] for x in range(4)
    ]
    line, shape = line_of(losses)
    assert minimum_of(line, POSITIONS, [shape], [(float(x), 3.0) for x in range(4)]) is None


def test_the_page_marks_it_and_says_its_interval(session: Session) -> None:
    page = sweep_page(session, "head-count", {"y": "loss"})
    statistics = paired_statistics(ablation_table(session, "head-count"))
    figure = page.figures[0]
    for shape in statistics.shapes:
        fit = shape.parabola
        assert fit
        assert fit.low
        assert fit.high
        assert f"fitted minimum at {fit.minimum:.3g} [{fit.low:.3g},\u00a0{fit.high:.3g}]" in figure.summary
    marks = [trace for trace in figure.drawn["data"] if trace.get("error_x")]
    assert len(marks) == 3
    assert "crossed diamond: the minimum of a parabola" in figure.caption
