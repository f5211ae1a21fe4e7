import json
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from residual_variants import build, job, perturb

from headcount.trainer.errors import Stopped, UserError
from headcount.trainer.evaluation import routing
from headcount.trainer.probe.figures import Figures, Settings
from headcount.trainer.probe.running import probe

SETTINGS = Settings(slices=4, draws=3)


def windows(count: int = 4) -> torch.Tensor:
    return torch.randint(0, 19, (count, 17), generator=torch.Generator().manual_seed(0))


def probed(
    model: dict[str, Any], given: torch.Tensor | None = None, settings: Settings = SETTINGS
) -> Figures:
    return probe(perturb(build(job(model))), windows() if given is None else given, settings)


def test_queries_of_zero_have_no_disagreement_and_even_weights() -> None:
    found = probe(build(job({"residual": "mhar"})), windows(), SETTINGS)
    assert [(site.site, site.sources) for site in found.sites] == [(1, 2), (2, 3), (3, 4), (4, 5)]
    for site in found.sites:
        assert site.disagreement == pytest.approx(0, abs=1e-15)
        assert site.null == pytest.approx(0, abs=1e-15)
        assert site.entropy == pytest.approx(math.log(site.sources), abs=1e-12)
        assert [w for row in site.weights for w in row] == pytest.approx(
            [1 / site.sources] * 4 * site.sources
        )
    assert found.excess == pytest.approx(0, abs=1e-15)
    assert found.replication is None


@pytest.mark.parametrize(
    "variant",
    [
        {"residual": "mhar"},
        {"residual": "mhar", "routing_heads": 2, "logit_scale_form": "per_head"},
        {"residual": "mhar", "routing_heads": 4, "block_size": 3},
        {"residual": "delta", "routing_heads": 2},
        {"residual": "haares", "block_size": 3, "routing_heads": 2},
    ],
)
def test_entropies_and_top_sources_are_those_of_the_evaluations(variant: dict[str, Any]) -> None:
    model = perturb(build(job(variant)))
    found = probe(model, windows(), SETTINGS)
    told = [routing(model, window, 0) for window in windows().split(1)]
    for site in found.sites:
        assert site.entropy == pytest.approx(sum(t.entropy[site.site] for t in told if t) / 4, rel=1e-6)
        assert sum(map(sum, site.weights)) == pytest.approx(len(site.weights[0]), rel=1e-6)
        assert site.oldest_weight == pytest.approx(sum(site.weights[0]) / len(site.weights[0]))
        assert site.null > 0
    assert found.heads == (variant.get("routing_heads") or 4)


def test_a_single_head_is_shown_by_its_slices_and_more_by_themselves() -> None:
    one, four = probed({"residual": "mhar"}), probed({"residual": "mhar", "routing_heads": 4})
    assert one.heads == four.heads == 4
    model = perturb(build(job({"residual": "mhar", "routing_heads": 2})))
    halves = probe(model, windows(), replace(SETTINGS, slices=2))
    assert halves.heads == 2
    assert halves.cross_head == pytest.approx(-1)


def test_it_stops_between_two_windows() -> None:
    model, asked = perturb(build(job({"residual": "mhar"}))), iter(range(9))
    with pytest.raises(Stopped):
        probe(model, windows(), SETTINGS, lambda: next(asked) == 3)
    assert next(asked) == 4


def test_windows_are_read_one_by_one_and_count_alike() -> None:
    """So that memory does not grow with their number: the figures of many are the mean of those of each."""
    model = perturb(build(job({"residual": "mhar"})))
    found = probe(model, windows(), SETTINGS)
    each = [probe(model, window.repeat(2, 1), SETTINGS) for window in windows().split(1)]
    assert found.disagreement == pytest.approx(sum(f.disagreement for f in each) / 4, rel=1e-9)
    assert found.null == pytest.approx(sum(f.null for f in each) / 4, rel=1e-9)
    assert found.collinearity == pytest.approx(sum(f.collinearity for f in each) / 4, rel=1e-9)
    assert each[0].replication == pytest.approx(1)
    assert found.replication is not None
    assert found.replication < 1


def test_the_null_is_that_of_the_querys_norm() -> None:
    model = build(job({"residual": "mhar"}))
    with torch.no_grad():
        for query in model.stream.queries:
            query.normal_(generator=torch.Generator().manual_seed(1)).mul_(0.01)
    short = probe(model, windows(), replace(SETTINGS, draws=64))
    with torch.no_grad():
        for query in model.stream.queries:
            query.mul_(3)
    long = probe(model, windows(), replace(SETTINGS, draws=64))
    assert long.null == pytest.approx(9 * short.null, rel=0.05)


def test_figures_are_json_with_every_measurement() -> None:
    record = json.loads(json.dumps(probed({"residual": "mhar"}).to_record()))
    assert record["measurements"]["probe.excess"] == pytest.approx(
        record["measurements"]["probe.disagreement"] - record["measurements"]["probe.null"]
    )
    assert record["tokens"] == 64


def test_what_cannot_be_probed_is_refused() -> None:
    for variant, settings, count, message in (
        ({"residual": "additive"}, SETTINGS, 4, "stream additive mixes"),
        ({"residual": "wav", "block_size": 2}, SETTINGS, 4, "stream wav mixes"),
        ({"residual": "mhar"}, replace(SETTINGS, slices=3), 4, "3 slices do not divide the width 16"),
        ({"residual": "mhar"}, SETTINGS, 1, "two windows or more"),
    ):
        with pytest.raises(UserError, match=message):
            probed(variant, windows(count), settings)
