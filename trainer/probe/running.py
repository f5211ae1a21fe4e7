"""The probe of one model over windows of text, window by window: memory does not grow with their number."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from headcount.trainer.data import Dataset
from headcount.trainer.errors import Stopped, UserError
from headcount.trainer.job_files.model_file import job_of, load_model
from headcount.trainer.model.transformer import Transformer
from headcount.trainer.probe.figures import Figures, Settings, Site
from headcount.trainer.probe.measures import (
    collinearity,
    correlation,
    cross_head_correlation,
    head_deviation,
    keys,
    slice_logits,
    width_disagreement,
)
from headcount.trainer.residuals.interface import State
from headcount.trainer.residuals.routed import RoutedStream
from headcount.trainer.watching import watched


def _never() -> bool:
    return False


@torch.no_grad()
def probe(
    model: Transformer,
    windows: Tensor,
    settings: Settings = Settings(),  # noqa: B008
    stop: Callable[[], bool] = _never,
) -> Figures:
    """What `Figures` holds, for a model whose stream mixes its sources by one query a site.

    windows: [n, context + 1] tokens, n ≥ 2; each is read by itself. Weights and logits are float32, float64
    for a model that computes in it. Raises `UserError` for another stream, and for slices that do not fit;
    `Stopped` where `stop()`, asked before each window, is true.
    """
    stream, width = model.stream, model.embedding.shape[1]
    if width % settings.slices:
        raise UserError(f"{settings.slices} slices do not divide the width {width}; choose a divisor")
    if len(windows) < 2:
        raise UserError("the probe needs two windows or more: its maps are compared between two texts")
    if not isinstance(stream, RoutedStream) or not _found(model, windows[:1], settings, stop):
        name = type(stream).__module__.rpartition(".")[2]
        raise UserError(
            f"no site of the stream {name} mixes by one query; the probe reads mhar, delta and haares"
        )
    halves = windows[: len(windows) // 2], windows[len(windows) // 2 :]
    first, second = (_found(model, half, settings, stop) for half in halves)
    return _figures(first, second, settings, len(windows) * (windows.shape[1] - 1))


def probe_file(
    file: Path, dataset: Dataset, settings: Settings, device: str, stop: Callable[[], bool] = _never
) -> Figures:
    """`probe` of the model in a job's file, on the validation text of its own data set.

    Raises `UserError` as `probe` and `load_model` do.
    """
    model, metadata = load_model(file, device)
    windows = dataset.validation(settings.windows, job_of(metadata).data.context)
    return probe(model, torch.from_numpy(windows).to(device), settings, stop)


@dataclass
class _Sums:
    """Of one site over windows, in float64."""

    sources: int
    windows: int = 0
    disagreement: float = 0.0
    null: float = 0.0
    entropy: float = 0.0
    collinearity: float = 0.0
    weights: Tensor = field(default_factory=lambda: torch.zeros(()))

    def means(self) -> Tensor:
        return self.weights / self.windows


def _found(
    model: Transformer, windows: Tensor, settings: Settings, stop: Callable[[], bool]
) -> dict[int, _Sums]:
    """The sums of every site of two sources or more."""
    stream = model.stream
    assert isinstance(stream, RoutedStream)
    found: dict[int, _Sums] = {}

    def note(state: State, site: int) -> None:
        if site >= len(stream.queries):
            return
        sources = stream.sources(state, site)
        if sources is not None and len(sources) > 1:
            _add(found.setdefault(site, _Sums(len(sources))), stream, sources, site, settings)

    with watched(stream, note):
        for window in torch.split(windows, 1):
            if stop():
                raise Stopped
            model.hidden(window[:, :-1])
    return found


def _add(sums: _Sums, stream: RoutedStream, sources: list[Tensor], site: int, settings: Settings) -> None:
    exact = torch.float64 if sources[0].dtype == torch.float64 else torch.float32
    query = stream.scaled_query(site).to(exact) * stream.logit_scale
    own_keys = keys(sources, stream.key_weights[site].to(exact), stream.eps)
    logits = slice_logits(own_keys, query, settings.slices)
    draws = _random_queries(query, settings, site)
    nulls = [width_disagreement(slice_logits(own_keys, draw, settings.slices)) for draw in draws]
    if stream.heads > 1:
        weights = stream.weights(sources, site).flatten(1, -2)
    else:
        weights = torch.softmax(logits, dim=0)
    sums.windows += 1
    sums.disagreement += float(width_disagreement(logits))
    sums.null += float(torch.stack(nulls).mean())
    sums.entropy += float(torch.special.entr(stream.weights(sources, site)).sum(0).mean())
    sums.collinearity += float(collinearity(sources))
    sums.weights = sums.weights + weights.double().mean(1).cpu()


def _random_queries(query: Tensor, settings: Settings, site: int) -> list[Tensor]:
    """Of the query's norm, in directions drawn by (seed, site)."""
    digest = hashlib.sha256(f"probe/{settings.seed}/{site}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little", signed=True))
    drawn = torch.randn(settings.draws, len(query), generator=generator, dtype=torch.float64)
    drawn = torch.nn.functional.normalize(drawn, dim=-1).to(query)
    return list(drawn * query.norm())


def _figures(first: dict[int, _Sums], second: dict[int, _Sums], settings: Settings, tokens: int) -> Figures:
    sites = []
    maps: tuple[list[Tensor], list[Tensor]] = ([], [])
    for number, a in first.items():
        b = second[number]
        windows = a.windows + b.windows
        weights = (a.weights + b.weights) / windows
        for side, sums in zip(maps, (a, b), strict=True):
            side.append(head_deviation(sums.means()))
        sites.append(
            Site(
                site=number,
                sources=a.sources,
                disagreement=(a.disagreement + b.disagreement) / windows,
                null=(a.null + b.null) / windows,
                entropy=(a.entropy + b.entropy) / windows,
                top_source=int(weights.mean(1).argmax()),
                oldest_weight=float(weights[0].mean()),
                weights=tuple(map(tuple, weights.tolist())),
            )
        )
    last = max(first)
    both = first[last].collinearity + second[last].collinearity
    joined = [torch.cat(side) for side in maps]
    return Figures(
        settings=settings,
        heads=joined[0].shape[1],
        tokens=tokens,
        sites=tuple(sites),
        collinearity=both / (first[last].windows + second[last].windows),
        replication=correlation(*joined),
        cross_head=cross_head_correlation((joined[0] + joined[1]) / 2),
    )
