from typing import Any

import pytest
from table_rows import row

from headcount.api.results import CurveLine, PublishedMatch, PublishedRow, Reference
from headcount.dashboard.figures.published import published_lines

HEADS = (1, 2, 4)


def published(heads: int, loss: float | None, delta: float | None, **more: Any) -> PublishedRow:
    fields: dict[str, Any] = dict.fromkeys(
        ("corpus", "peak_lr", "steps", "estimator", "seeds", "query_init"), ""
    )
    fields |= {"table": "t", "scale": "100m", "residual": "mhar", "kv_heads": 4, "source": "s"}
    return PublishedRow(**fields | {"routing_heads": heads, "loss": loss, "delta": delta} | more)


def match(cell: int, row: PublishedRow, same_scale: bool = False) -> PublishedMatch:
    return PublishedMatch(cell, row, same_scale, None)


LINE = CurveLine({}, tuple(row(h, {0: 3.4}) for h in HEADS), (None,) * 3)
OURS = {1: 3.4, 2: 3.3, 4: 3.5}
POSITIONS = [0.0, 1.0, 2.0]


def lines_of(*matches: PublishedMatch, measure: Any = "loss") -> list[Any]:
    return published_lines(Reference("paper", matches, ()), [LINE], POSITIONS, measure, OURS)


def test_a_published_loss_is_moved_to_the_mean_of_our_line() -> None:
    (line,) = lines_of(match(4, published(4, 2.9, None)), match(1, published(1, 2.8, None)))
    assert (line.recipe, line.line, line.positions) == ("100m", 0, [0.0, 2.0])
    assert line.moved == pytest.approx(3.45 - 2.85)
    assert line.values == pytest.approx([2.8 + 0.6, 2.9 + 0.6])


def test_a_published_delta_stands_as_it_is() -> None:
    (line,) = lines_of(match(1, published(1, 2.8, -0.1)), match(2, published(2, 2.7, -0.2)), measure="delta")
    assert (line.values, line.moved) == ([-0.1, -0.2], 0.0)


def test_recipes_are_not_mixed_and_one_point_is_no_curve() -> None:
    rows = [published(1, 2.8, None), published(2, 2.7, None, peak_lr="5e-4"), published(4, 2.9, None)]
    (line,) = lines_of(*(match(h, r) for h, r in zip(HEADS, rows, strict=True)))
    assert line.positions == [0.0, 2.0]


def test_our_own_scale_is_preferred() -> None:
    other = [match(h, published(h, 2.8, None)) for h in HEADS]
    same = [match(h, published(h, 3.1, None, scale="tiny"), same_scale=True) for h in HEADS]
    (line,) = lines_of(*other, *same)
    assert line.recipe == "tiny"
