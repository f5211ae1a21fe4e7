from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from headcount.trainer.model import drawing


def draw(draws: drawing._Draws, seed: int, name: str, *shape: int) -> Tensor:
    with ThreadPoolExecutor(2) as pool:
        return draws.normal(pool, seed, name, torch.Size(shape))()


def test_draws_are_kept_up_to_a_limit_and_come_out_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "KEPT_BYTES", 2 * 4 * 4 * 8)
    draws = drawing._Draws()
    first, second = draw(draws, 0, "a", 4, 8), draw(draws, 1, "a", 4, 8)
    assert not torch.equal(first, second)
    assert draw(draws, 0, "a", 4, 8) is first
    draw(draws, 0, "b", 4, 8)  # in place of the one that was used least recently
    assert draw(draws, 0, "a", 4, 8) is first
    again = draw(draws, 1, "a", 4, 8)
    assert again is not second
    assert torch.equal(again, second)


def test_a_draw_is_by_seed_and_name() -> None:
    normal = draw(drawing._Draws(), 3, "embedding", 2, 8)
    assert normal[0, :3].tolist() == pytest.approx([0.5858376, -0.1945216, -0.2080678], rel=1e-5)


def test_a_large_draw_has_a_generator_for_each_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "CHUNK", 64)
    large, small = (draw(drawing._Draws(), 3, "embedding", rows, 8) for rows in (20, 8))
    assert torch.equal(large[:8], small)
    tail = draw(drawing._Draws(), 3, "embedding/1", 8, 8)
    assert torch.equal(large[8:16], tail)
    assert large[16:].std() > 0.5
