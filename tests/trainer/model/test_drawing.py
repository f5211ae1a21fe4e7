import pytest
import torch

from headcount.trainer.model import drawing


def test_draws_are_kept_up_to_a_limit_and_come_out_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = torch.Size((4, 8))
    monkeypatch.setattr(drawing, "KEPT_BYTES", 2 * 4 * shape.numel())
    draws = drawing._Draws()
    first, second = draws.normal(0, "a", shape), draws.normal(1, "a", shape)
    assert not torch.equal(first, second)
    assert draws.normal(0, "a", shape) is first
    draws.normal(0, "b", shape)  # in place of the one that was used least recently
    assert draws.normal(0, "a", shape) is first
    again = draws.normal(1, "a", shape)
    assert again is not second
    assert torch.equal(again, second)


def test_a_draw_is_by_seed_and_name() -> None:
    normal = drawing._Draws().normal(3, "embedding", torch.Size((2, 8)))
    assert normal[0, :3].tolist() == pytest.approx([0.5858376, -0.1945216, -0.2080678], rel=1e-5)
