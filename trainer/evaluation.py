"""Validation: the same windows at every evaluation of every job that shares data and protocol."""

import math
from collections.abc import Callable
from contextlib import nullcontext, suppress

import torch
from torch import Tensor

from headcount.trainer.events import Routing
from headcount.trainer.job_files.curves import HeadReads
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

    def mix(weights: Tensor) -> tuple[Tensor, Tensor]:
        flat = weights.flatten(1)
        return torch.special.entr(flat).sum(0).mean(), flat.mean(1).argmax()

    mixes = _by_site(model, windows, mix)
    if not mixes:
        return None
    return Routing(step, *(tuple(column.tolist()) for column in map(torch.stack, zip(*mixes, strict=True))))


@torch.no_grad()
def head_reads(model: Transformer, windows: Tensor) -> HeadReads | None:
    """What each head of each site reads over windows [n, context + 1]; None as in `routing`."""

    def read(weights: Tensor) -> tuple[Tensor, Tensor]:
        by_head = weights.flatten(1, -2)
        return torch.special.entr(by_head).sum(0).mean(0), by_head.mean(1).T

    reads = _by_site(model, windows, read)
    return (
        HeadReads(*([part.tolist() for part in parts] for parts in zip(*reads, strict=True)))
        if reads
        else None
    )


Pair = tuple[Tensor, Tensor]


def _by_site(model: Transformer, windows: Tensor, figures: Callable[[Tensor], Pair]) -> list[Pair]:
    """The figures of the weights [sources, ..., heads] of every site that routes by weights, in order."""
    stream = model.stream
    if "weights" not in stream_diagnostics(type(stream).__module__.rpartition(".")[2]):
        return []
    found: dict[int, Pair] = {}
    end = 2 * stream.loops * len(model.blocks)

    def note(state: State, site: int) -> None:
        if site in found:
            return
        # a stream that routes nothing before the head has no site there
        with suppress(IndexError) if site == end else nullcontext():
            if (weights := stream.diagnose(state, site).get("weights")) is not None:
                found[site] = figures(weights)

    with watched(stream, note):
        model.hidden(windows[:, :-1])
    return [found[site] for site in sorted(found)]
