"""Two processes on the CPU, as two GPUs share a job."""

import io
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from small_jobs import after
from torch import Tensor

from headcount.trainer import attempt
from headcount.trainer.config import JobConfig
from headcount.trainer.data import Dataset
from headcount.trainer.errors import UserError
from headcount.trainer.events import Checkpoint, Evaluation, Event, Result, Started
from headcount.trainer.exact import exact_mode
from headcount.trainer.execution import Execution, batch_windows
from headcount.trainer.loop import train
from headcount.trainer.model.transformer import Transformer
from headcount.trainer.step import Updater, updater_for
from headcount.trainer.team import leader
from headcount.trainer.team.leader import Team, share_of
from headcount.trainer.team.member import _next

Job = Callable[..., JobConfig]
CPU = torch.device("cpu")
TWO = Execution(device="cpu", gpus=2, micro_batch=3)


@contextmanager
def leading(config: JobConfig, dataset: Dataset) -> Iterator[tuple[Team, Updater]]:
    team = Team(config, dataset, None, TWO, 3, CPU)
    try:
        model = Transformer(config.model, config.data.context, config.seed)
        updater = updater_for(model, config, TWO, 3)
        team.join()
        yield team, updater
    finally:
        team.close()


def tensors(updater: Updater) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in updater.model.parameters()]


def test_one_and_two_processes_have_one_gradient(small_job: Job, small_data: Dataset) -> None:
    """AdamW's first moment after one update is the gradient, times 1 − beta1."""
    config = small_job(model__residual="mhar", model__routing_heads=4, model__layers=2, train__clip_norm=0.0)
    windows = torch.from_numpy(small_data.batch(0, 0, batch_windows(config), 16))
    alone = updater_for(Transformer(config.model, 16, 0), config, Execution(device="cpu"), 8)
    with exact_mode(TWO), leading(config, small_data) as (team, ours):
        loss, norm = ours.update(team.begin_update(0, 1e-2, windows), 1e-2)
        expected_loss, expected_norm = alone.update(windows, 1e-2)
        assert torch.allclose(loss, expected_loss, rtol=1e-6, atol=0)
        assert torch.allclose(norm, expected_norm, rtol=1e-5, atol=0)
        for one, other in zip(ours.model.parameters(), alone.model.parameters(), strict=True):
            gradient, expected = (u.optimizer.state[p]["exp_avg"] for u, p in ((ours, one), (alone, other)))
            assert (gradient - expected).norm() <= 1e-5 * expected.norm() + 1e-12


def test_shares_lie_in_order_and_cover_the_update() -> None:
    windows = torch.arange(24).view(8, 3)
    assert torch.equal(torch.cat([share_of(windows, rank, 4) for rank in range(4)]), windows)


def told(events: list[Event]) -> list[tuple[int, float]]:
    return [(event.step, event.loss) for event in events if isinstance(event, Evaluation)]


def test_a_job_of_two_processes_stops_and_goes_on_with_the_same_bits(
    small_job: Job, small_data: Dataset, tmp_path: Path
) -> None:
    config = small_job(train__ema_decay=0.9)
    whole = list(train(config, small_data, execution=TWO))
    assert isinstance(whole[0], Started)
    assert (whole[0].environment["gpus"], whole[0].environment["micro_batch"]) == (2, 3)
    assert isinstance(whole[-1], Result)
    alone = list(train(config, small_data, execution=Execution(device="cpu")))
    assert [step for step, _ in told(whole)] == [step for step, _ in told(alone)]
    for (_, loss), (_, expected) in zip(told(whole), told(alone), strict=True):
        assert loss == pytest.approx(expected, rel=1e-4)  # the same tokens in the same order
    stopped = list(train(config, small_data, folder=tmp_path, execution=TWO, stop=after(7)))
    assert isinstance(stopped[-1], Checkpoint)
    gone_on = list(train(config, small_data, folder=tmp_path, execution=TWO))
    assert told(gone_on) == told(whole)
    assert isinstance(gone_on[-1], Result)
    assert gone_on[-1].tail_mean == whole[-1].tail_mean


def test_a_process_that_dies_ends_the_job_with_its_name(small_job: Job, small_data: Dataset) -> None:
    with exact_mode(TWO), leading(small_job(), small_data) as (team, _):
        team._members[0].send_signal(signal.SIGKILL)
        team._members[0].wait()
        with pytest.raises(RuntimeError, match="process 1 of the job's 2 ended with -9"):
            team.begin_update(0, 1e-2, torch.zeros(8, 17, dtype=torch.int64))


def test_a_leader_that_is_gone_ends_the_others() -> None:
    assert _next(io.BytesIO()) is None
    assert _next(io.BytesIO(b"\x80\x04\x95")) is None  # it died within a message


@pytest.mark.parametrize(("processes", "nearest"), [(3, 2), (16, 8)])
def test_what_cannot_be_shared_is_refused(
    small_job: Job, small_data: Dataset, processes: int, nearest: int
) -> None:
    told = f"{processes} GPUs cannot share the 8 windows of an update equally; {nearest} can"
    with pytest.raises(UserError, match=told):
        list(train(small_job(), small_data, execution=Execution(device="cpu", gpus=processes)))


@pytest.mark.skipif(torch.cuda.device_count() > 1, reason="there are several GPUs")
def test_gpus_that_are_not_there_are_refused(small_job: Job, small_data: Dataset) -> None:
    with pytest.raises(UserError, match="2 GPUs were asked for, but PyTorch finds"):
        list(train(small_job(), small_data, execution=Execution(gpus=2)))


def test_a_job_that_cannot_start_leaves_no_process(
    small_job: Job, small_data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = leader._start

    def fail(*arguments: object) -> None:
        assert started[0].poll() is None
        raise UserError("no model")

    monkeypatch.setattr(leader, "_start", lambda: started.append(start()) or started[-1])
    monkeypatch.setattr(attempt, "start_model", fail)
    with pytest.raises(UserError, match="no model"):
        list(train(small_job(), small_data, execution=TWO))
    assert [member.poll() for member in started] == [-signal.SIGKILL]
