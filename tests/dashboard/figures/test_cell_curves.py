import pytest

from headcount.api.results.cell_curves import CellCurve
from headcount.dashboard.figures.bars import Measure
from headcount.dashboard.figures.cell_curves import CellCurvesData, NamedCurve, runs_out, settled_range

STEPS = tuple(range(0, 101, 5))


def curves(measure: Measure, first: tuple[float, float], rest: tuple[float, ...]) -> CellCurvesData:
    """One cell at one seed: two evaluations in the first tenth of the steps, and then `rest` in turn."""
    losses = first + tuple(rest[i % len(rest)] for i in range(len(STEPS) - 2))
    return CellCurvesData(measure, [NamedCurve("H 8", CellCurve(0, (0,), STEPS, (losses,), losses), False)])


@pytest.mark.parametrize(
    ("measure", "first", "shown", "cut"),
    [
        ("loss", (9.0, 6.0), (3.0, 4.0), True),
        ("loss", (4.0, 4.0), (3.0, 4.0), False),
        ("delta", (3.0, 5.0), (3.0, 5.0), False),
        ("delta", (9.0, 6.0), (3.0, 4.0), True),
    ],
)
def test_the_range_leaves_out_first_steps_that_would_take_most_of_it(
    measure: Measure, first: tuple[float, float], shown: tuple[float, float], cut: bool
) -> None:
    data = curves(measure, first, (3.0, 4.0))
    room = 0.06 * (shown[1] - shown[0])
    assert settled_range(data) == pytest.approx((shown[0] - room, shown[1] + room))
    assert runs_out(data) == ("; the first steps run out of the figure" if cut else "")


def test_without_a_value_there_is_no_range() -> None:
    nothing = CellCurvesData("delta", [])
    assert settled_range(nothing) is None
    assert runs_out(nothing) == ""
