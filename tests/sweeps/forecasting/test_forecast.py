"""What a plan costs, and what it warns of."""

import math
from dataclasses import replace

import pytest
from planned import MANIFEST, planned

from headcount.sweeps.forecasting.forecast import Forecast, forecast
from headcount.sweeps.forecasting.speed import History
from headcount.trainer.flops import job_flops, parameter_count

TRAIN = "train: {steps: 200, batch_tokens: 1024}"
MHAR = f"name: s\njob: {{model: {{residual: mhar}}, {TRAIN}}}\n"
ANY_STEPS = MHAR.replace("steps: 200, ", "")
TWO_SEEDS = "seeds: [0, 1]\n"


def of(text: str) -> Forecast:
    """Over a short text."""
    return forecast(planned(text, lambda config: replace(MANIFEST, train_tokens=300_000)))


def test_the_costs_are_the_trainer_s_formulas_summed_over_all_jobs() -> None:
    sweep = planned(ANY_STEPS + TWO_SEEDS + "axes: {model.d_ff: [96, 192], train.steps: [100, 200]}")
    cost = forecast(sweep)
    assert len(cost.cells) == len(sweep.cells) == 8
    for job in sweep.jobs:
        one = cost.cells[job.cell]
        assert one.parameters == parameter_count(job.config)
        assert one.tokens == job.config.train.steps * 1024
        assert one.flops == job_flops(job.config)
    assert cost.tokens == 8 * (100 + 200) * 1024
    assert cost.flops == pytest.approx(math.fsum(job_flops(job.config) for job in sweep.jobs), rel=1e-12)


def test_the_half_width_is_student_s() -> None:
    # t(0.975) at 1 and 4 degrees of freedom: 12.7062, 2.77645
    assert of(MHAR + TWO_SEEDS).half_width == pytest.approx(12.7062 / math.sqrt(2), rel=1e-5)
    assert of(MHAR + "seeds: [0, 1, 2, 3, 4]").half_width == pytest.approx(2.77645 / math.sqrt(5), rel=1e-5)
    assert of(MHAR).half_width is None


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        (MHAR + TWO_SEEDS, []),
        (MHAR, ["one seed: a delta has no interval and no p-value; two or more seeds give them"]),
        (MHAR + TWO_SEEDS + "control: none", ["no controls: the table will have losses and no deltas"]),
        (
            MHAR.replace("mhar", "additive") + TWO_SEEDS + "axes: {model.kv_heads: [2, 4]}",
            ["every cell is its own control: the table will have losses and no deltas"],
        ),
        (
            MHAR + TWO_SEEDS + "axes: {train.peak_lr: [1e-3, 3e-3]}",
            [
                "train.peak_lr has two values: the better one lies at an edge of the grid, and a "
                "still better one may lie beyond"
            ],
        ),
        (
            MHAR + TWO_SEEDS + "axes: {model.routing_heads: [1, 2, 4]}",
            [
                "no analysis: ends and middle of model.routing_heads are not fixed beforehand, so this "
                "sweep's own seeds cannot support a U"
            ],
        ),
        (
            MHAR
            + TWO_SEEDS
            + "axes: {model.routing_heads: [1, 2, 4]}\n"
            + "analysis: {axis: model.routing_heads, ends: [1, 4], middle: [2]}",
            [],
        ),
        (
            MHAR
            + TWO_SEEDS
            + "axes: {model.routing_heads: [1, 2], train.peak_lr: [1e-4, 1e-3, 1e-2]}\n"
            + "skip: ['model.routing_heads == 2 and train.peak_lr > 0.005']",
            [
                "unequal grids of train.peak_lr: from 2 to 3 values a method, so that a method with more of "
                "them has more chances; skip none, or the same for all"
            ],
        ),
        (
            MHAR.replace("residual: mhar", "query_init: normal") + "control: none\n" + TWO_SEEDS,
            [
                "no controls: the table will have losses and no deltas",
                "model.query_init has no effect: the residual stream additive does not read it",
            ],
        ),
        (
            ANY_STEPS + TWO_SEEDS + "axes: {train.steps: [200, 1000]}",
            ["a job reads the text stdlib 3.4 times over: it has 300,000 training tokens"],
        ),
    ],
)
def test_a_plan_warns_of_what_its_table_cannot_say(text: str, warnings: list[str]) -> None:
    assert list(of(text).warnings) == warnings


def test_a_best_rate_at_the_grid_s_edge_is_told_from_the_results() -> None:
    text = MHAR + TWO_SEEDS + "axes: {model.routing_heads: [1, 2], train.peak_lr: [1e-4, 1e-3, 1e-2]}"
    sweep = planned(text)
    losses = {1e-4: 3.0, 1e-3: 2.5, 1e-2: 2.0}
    results: dict[str, float | None] = {
        job.id: losses[job.config.train.peak_lr] for job in sweep.jobs if job.config.seed == 0
    }
    assert forecast(sweep, History("cpu", 1, results=results)).warnings == ()  # one of two seeds
    for job in sweep.jobs:
        diverges = job.config.model.routing_heads == 2 and job.config.train.peak_lr == 1e-2
        results[job.id] = None if diverges else losses[job.config.train.peak_lr]
    assert forecast(sweep, History("cpu", 1, results=results)).warnings == (
        "train.peak_lr 0.01 is the best for 2 of 3 methods so far, and lies at the grid's edge: a higher one "
        "may be better still",
    )


def test_a_budget_that_may_not_hold_all_is_told() -> None:
    text = MHAR + TWO_SEEDS + "budget: {gpu_hours: 0.001}"
    sweep = planned(text)
    [warning] = forecast(sweep, History("cuda", 1)).warnings + forecast(sweep, History("cpu", 1)).warnings
    assert warning.startswith("the budget of 0.001 GPU-hours may not hold all jobs, which take 0.0")
