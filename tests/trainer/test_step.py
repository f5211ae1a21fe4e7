"""One update, on the CPU."""

import gc
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from headcount.trainer import step
from headcount.trainer.config import JobConfig
from headcount.trainer.errors import UserError
from headcount.trainer.exact import exact_mode
from headcount.trainer.execution import Execution
from headcount.trainer.graphs import GraphError
from headcount.trainer.model.attention import check_flash
from headcount.trainer.model.transformer import Transformer
from headcount.trainer.step import Updater, updater_for

WINDOWS = torch.randint(256, (8, 17), generator=torch.Generator().manual_seed(0))


def updater(config: JobConfig) -> Updater:
    return updater_for(Transformer(config.model, 16, config.seed), config, Execution(), micro_batch=3)


def test_restored_moments_go_on_with_the_same_bits(small_job: Callable[..., JobConfig]) -> None:
    config = small_job(model__residual="mhar", model__routing_heads=4)
    whole, other = updater(config), updater(config)
    for rate in (1e-2, 5e-3):
        whole.update(WINDOWS, rate)
    state = {part: dict(values) for part, values in whole.state().items()}
    other.update(WINDOWS.flip(0), 1e-1)  # has moments of its own, which are overwritten in place
    other.restore(state)
    results = [each.update(WINDOWS, 2e-3) for each in (whole, other)]
    assert results[0] == results[1]
    for one, another in zip(whole.model.parameters(), other.model.parameters(), strict=True):
        assert torch.equal(one, another)


class Refusing:
    """Runs what is to be captured, and captures no update."""

    def __init__(self, device: torch.device) -> None:
        pass

    def capture(self, work: Callable[..., None], *inputs: Tensor, prepare: Callable[[], None]) -> None:
        prepare()
        work(*inputs)
        if not inputs:
            raise GraphError("it waits")


def test_what_cannot_be_captured_leaves_the_model_and_its_optimizer_as_they_were(
    small_job: Callable[..., JobConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "Graphs", Refusing)
    config = small_job(model__residual="mhar", model__routing_heads=4)
    plain, refused = (
        Updater(
            Transformer(config.model, 16, config.seed),
            config.train,
            context=16,
            windows=8,
            micro_batch=3,
            graphs=graphs,
        )
        for graphs in (False, True)
    )
    assert refused.environment()["graphs"] == "it waits"
    for rate in (1e-2, 5e-3):
        assert plain.update(WINDOWS, rate) == refused.update(WINDOWS, rate)
    for one, other in zip(plain.model.parameters(), refused.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_rate_is_one_tensor_for_all_updates(small_job: Callable[..., JobConfig]) -> None:
    it = updater(small_job())
    rate = it.optimizer.param_groups[0]["lr"]
    before = it.model.embedding.clone()
    it.update(WINDOWS, 0.0)
    assert torch.equal(it.model.embedding, before)
    it.update(WINDOWS, 1e-3)
    assert not torch.equal(it.model.embedding, before)
    assert it.optimizer.param_groups[0]["lr"] is rate
    assert rate.item() == 1e-3


def test_python_collects_no_garbage_within_steps() -> None:
    assert gc.isenabled()
    with exact_mode(Execution()):
        assert not gc.isenabled()
    assert gc.isenabled()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_where_flash_cannot_run_it_says_so() -> None:
    query, key = torch.zeros(1, 4, 8, 16, dtype=torch.bfloat16), torch.zeros(1, 2, 8, 16)
    with pytest.raises(UserError, match="flash attention cannot run on cpu with 4 heads of width 16 and 2"):
        check_flash(query, key, key)
