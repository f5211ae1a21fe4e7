"""`headcount bench training`, or `python -m headcount.trainer.bench`: how fast this machine trains.

For each published scale, whole updates of the published batch, the optimizer included: at the published
micro-batch in the exact mode and in the fast one, at larger micro-batches, and nanoGPT's own model (`--peer`)
at the published micro-batch. Every row is the median over its updates, in one run; what is asked of the rows
is printed below them.

MFU: FLOPs a token (see `trainer.flops`) · tokens a second / the card's dense bf16 peak.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from headcount.trainer.bench.peer import load_peer, measure_peer
from headcount.trainer.bench.rows import Row, measure, second_job_seconds
from headcount.trainer.config import JobConfig, job_from_fields
from headcount.trainer.errors import UserError, nearest
from headcount.trainer.execution import Execution, batch_windows, micro_batch_rule
from headcount.trainer.flops import parameter_count
from headcount.trainer.scales import NOT_TRAINED, SCALES

VOCABULARY = 151_936
"""The published one."""


@dataclass(frozen=True)
class Published:
    """What is published or asked of a scale."""

    micro_batch: int
    """Windows of one pass."""
    activation_bytes: float
    """Peak memory allowed beyond 16 bytes a parameter."""
    mfu: float | None
    """Asked for at the best micro-batch."""


PUBLISHED = {
    "100m": Published(8, 7e9, None),
    "350m": Published(4, 7e9, 0.45),
    "1b": Published(2, 8e9, 0.45),
}

PASS_TOKENS = (8_192, 16_384)
"""Of the micro-batches that are tried where it is free."""

AGAINST_PEER = 1.15
"""Least ratio of our MFU to nanoGPT's, both at the published micro-batch."""

TWO_GPUS = 1.9
"""Least ratio of two GPUs' speed to one's, at the published micro-batch."""

SECOND_JOB_SECONDS = 1.0
"""Most from dispatch to the end of the first update, for shapes up to `100m`."""


@dataclass(frozen=True)
class Check:
    """A figure and what is asked of it."""

    name: str
    value: float
    bound: float
    met: bool


def job(scale: str) -> JobConfig:
    """A job of the scale, its residual stream additive, with the published vocabulary if it is published."""
    vocabulary = {"model.vocab_size": VOCABULARY} if scale in PUBLISHED else {}
    return job_from_fields({"model.scale": scale, **vocabulary})


def measure_scale(scale: str, peer: Any, updates: int, gpus: int = 1) -> Iterator[Row]:
    """The rows of a scale; the last is of `peer`, of `load_peer`, if there is one."""
    config = job(scale)
    windows = batch_windows(config)
    small = PUBLISHED[scale].micro_batch if scale in PUBLISHED else micro_batch_rule(config)
    yield measure(scale, "exact", config, Execution(micro_batch=small), updates)
    yield measure(scale, "fast", config, Execution(micro_batch=small, exact=False), updates)
    for tokens in PASS_TOKENS:
        size = min(tokens // config.data.context, windows)
        if size > small:
            yield measure(scale, "exact", config, Execution(micro_batch=size), updates)
    if gpus > 1:
        execution = Execution(
            micro_batch=small, gpus=gpus, device="auto" if torch.cuda.is_available() else "cpu"
        )
        yield measure(scale, f"{gpus} GPUs", config, execution, updates)
    if peer is not None:
        yield measure_peer(scale, peer, config, small, updates)


def checks(scale: str, rows: Sequence[Row]) -> Iterator[Check]:
    """What is asked of a scale, as far as its `rows` tell it."""
    published = PUBLISHED.get(scale)
    if published is None:
        return
    exact = [row for row in rows if row.form == "exact"]
    ours = next(row for row in exact if row.micro_batch == published.micro_batch)
    bound = 16 * parameter_count(job(scale)) + published.activation_bytes
    yield Check(f"{scale}: peak memory in GB", ours.peak_bytes / 1e9, bound / 1e9, ours.peak_bytes <= bound)
    best = max(exact, key=lambda row: row.tokens_per_second)
    if best.mfu is not None and published.mfu is not None:
        name = f"{scale}: MFU, best micro-batch ({best.micro_batch})"
        yield Check(name, best.mfu, published.mfu, best.mfu >= published.mfu)
    for row in rows:
        if row.form == "nanoGPT" and row.mfu and ours.mfu:
            ratio = ours.mfu / row.mfu
            yield Check(f"{scale}: MFU against nanoGPT's", ratio, AGAINST_PEER, ratio >= AGAINST_PEER)
        if row.form == "2 GPUs":
            ratio = row.tokens_per_second / ours.tokens_per_second
            yield Check(f"{scale}: two GPUs against one", ratio, TWO_GPUS, ratio >= TWO_GPUS)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("headcount bench training", description="Time training steps.")
    parser.add_argument(
        "--scales", nargs="+", default=list(PUBLISHED), metavar="SCALE", help="default: %(default)s"
    )
    parser.add_argument("--peer", type=Path, metavar="PATH", help="A checkout of nanoGPT, to compare with.")
    parser.add_argument("--updates", type=int, default=8, help="Timed for each row (default: %(default)s).")
    parser.add_argument("--gpus", type=int, default=1, help="Adds rows with so many a job.")
    parser.add_argument("--json", action="store_true", help="One JSON object instead of the table.")
    given = parser.parse_args(arguments)
    for option, number in (("--updates", given.updates), ("--gpus", given.gpus)):
        if number < 1:
            raise UserError(f"{option}: got {number}; expected 1 or more")
    trained = [scale for scale in SCALES if scale not in NOT_TRAINED]
    for scale in given.scales:
        if scale not in trained:
            raise UserError(f"--scales: {scale!r} is none that is trained; {nearest(scale, trained)}")
    peer = load_peer(given.peer) if given.peer else None
    say: Callable[[str], None] = (lambda line: None) if given.json else (lambda line: print(line, flush=True))
    card = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    say(f"{card}, torch {torch.__version__}; medians of {given.updates} updates\n\n{_HEADER}")
    rows: list[Row] = []
    found: list[Check] = []
    for scale in given.scales:
        own = []
        for row in measure_scale(scale, peer, given.updates, given.gpus):
            own.append(row)
            say(_line(row, own[0]))
        rows += own
        found += checks(scale, own)
    if smallest := next((scale for scale in given.scales if scale not in ("350m", "1b")), None):
        for other, seconds in second_job_seconds(job(smallest)).items():
            name = f"{smallest}: seconds to the first update of a second job, {other}"
            found.append(Check(name, seconds, SECOND_JOB_SECONDS, seconds <= SECOND_JOB_SECONDS))
    if given.json:
        told = {"rows": [asdict(row) for row in rows], "checks": [asdict(check) for check in found]}
        print(json.dumps({"card": card, "torch": torch.__version__, **told}))
        return
    say("\n| asked | measured | bound | |\n|---|---|---|---|")
    for check in found:
        say(f"| {check.name} | {check.value:.3g} | {check.bound:.3g} | {'met' if check.met else 'missed'} |")


_HEADER = (
    "| scale | step | micro-batch | ms | tokens/s | MFU | of exact | peak GB | reserved GB |\n"
    + "|---" * 9
    + "|"
)


def _line(row: Row, first: Row) -> str:
    mfu = "–" if row.mfu is None else f"{row.mfu:.1%}"
    ratio = row.tokens_per_second / first.tokens_per_second
    return (
        f"| {row.scale} | {row.form} | {row.micro_batch} | {row.milliseconds:.1f} "
        f"| {row.tokens_per_second:,.0f} | {mfu} | {ratio:.2f} "
        f"| {row.peak_bytes / 1e9:.1f} | {row.reserved_bytes / 1e9:.1f} |"
    )
