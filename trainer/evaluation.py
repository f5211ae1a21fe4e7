"""Validation: the same windows at every evaluation of every job that shares data and protocol."""

import math
from contextlib import nullcontext, suppress

import torch
from torch import Tensor

from headcount.trainer.events import Routing
from headcount.trainer.model.transformer import Transformer
from headcount.trainer.residuals.interface import State
from headcount.trainer.residuals.registry import stream_diagnostics
from headcount.trainer.watching import watched


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
    stream = model.stream
    if "weights" not in stream_diagnostics(type(stream).__module__.rpartition(".")[2]):
        return None
    mixes: dict[int, tuple[Tensor, Tensor]] = {}
    end = 2 * stream.loops * len(model.blocks)

    def note(state: State, site: int) -> None:
        if site in mixes:
            return
        # a stream that routes nothing before the head has no site there
        with suppress(IndexError) if site == end else nullcontext():
            if (weights := stream.diagnose(state, site).get("weights")) is not None:
                weights = weights.flatten(1)
                mixes[site] = torch.special.entr(weights).sum(0).mean(), weights.mean(1).argmax()

    with watched(stream, note):
        model.hidden(windows[:, :-1])
    figures = [mixes[site] for site in sorted(mixes)]
    return Routing(step, *(tuple(column.tolist()) for column in map(torch.stack, zip(*figures, strict=True))))
