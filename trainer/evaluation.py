"""Validation: the same windows at every evaluation of every job that shares data and protocol."""

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch
from torch import Tensor

from headcount.trainer.attention import Attention
from headcount.trainer.events import Routing
from headcount.trainer.model import Transformer
from headcount.trainer.residuals.interface import ResidualStream, State
from headcount.trainer.residuals.registry import stream_diagnostics


@torch.no_grad()
def window_losses(model: Transformer, windows: Tensor, pass_windows: int) -> tuple[float, ...]:
    """Mean loss of each window, nats a token. windows: [n, context + 1], taken `pass_windows` at a time."""
    losses = [model.token_losses(part).mean(dim=1) for part in torch.split(windows, pass_windows)]
    return tuple(torch.cat(losses).tolist())


def mean_loss(losses: tuple[float, ...]) -> float:
    """Mean over all tokens; the windows are equally long."""
    return math.fsum(losses) / len(losses)


@torch.no_grad()
def routing(model: Transformer, windows: Tensor, step: int) -> Routing | None:
    """How each site mixes its sources over windows [n, context + 1]; None where no site routes by weights.

    A site that is read several times, as in loops, is told as first read.
    """
    with _watched(model.stream) as mixes:
        if mixes is None:
            return None
        model.hidden(windows[:, :-1])
    figures = [mixes[site] for site in sorted(mixes)]
    return Routing(step, *(tuple(column.tolist()) for column in map(torch.stack, zip(*figures, strict=True))))


@contextmanager
def _watched(stream: ResidualStream) -> Iterator[dict[int, tuple[Tensor, Tensor]] | None]:
    """Entropy and top source of each site that is read inside, as they come; None for a stream without
    routing weights."""
    if "weights" not in stream_diagnostics(type(stream).__module__.rpartition(".")[2]):
        yield None
        return
    mixes: dict[int, tuple[Tensor, Tensor]] = {}
    attend, read, finish = stream.attend, stream.read, stream.finish

    def note(state: State, site: int) -> None:
        if site not in mixes and (weights := stream.diagnose(state, site).get("weights")) is not None:
            weights = weights.flatten(1)
            mixes[site] = torch.special.entr(weights).sum(0).mean(), weights.mean(1).argmax()

    def noted_attend(state: State, site: int, attention: Attention, rotation: Tensor) -> Tensor:
        note(state, site)
        return attend(state, site, attention, rotation)

    def noted_read(state: State, site: int) -> Tensor:
        note(state, site)
        return read(state, site)

    def noted_finish(state: State) -> Tensor:
        with suppress(IndexError):  # a stream that routes nothing before the head has no site there
            note(state, max(mixes) + 1)
        return finish(state)

    noted = {"attend": noted_attend, "read": noted_read, "finish": noted_finish}
    stream.__dict__.update(noted)
    try:
        yield mixes
    finally:
        for name in noted:
            del stream.__dict__[name]
