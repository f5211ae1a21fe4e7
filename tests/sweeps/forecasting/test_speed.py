"""Rates and times by measured jobs, the nearer ones first, or by the stated model."""

from dataclasses import replace

import pytest
from planned import planned

from headcount.sweeps.forecasting.forecast import forecast
from headcount.sweeps.forecasting.makespan import makespan
from headcount.sweeps.forecasting.memory import peak_memory
from headcount.sweeps.forecasting.speed import CPU_MODEL, GPU_MODEL, History, Measured, Rate, rate_of
from headcount.trainer.config import JobConfig, job_from_fields

TEXT = "name: s\njob: {model: {residual: mhar}}\naxes: {model.routing_heads: [1, 2]}\nseeds: [0, 1]\n"


def job(**fields: object) -> JobConfig:
    return job_from_fields({name.replace("__", "."): value for name, value in fields.items()})


MHAR = job(model__residual="mhar", model__routing_heads=2)
LONGER = job(model__residual="mhar", model__routing_heads=2, train__steps=960, train__peak_lr=1e-4)
OTHER_HEADS = job(model__residual="mhar", model__routing_heads=4)
ADDITIVE = job()


def history(*jobs: tuple[JobConfig, float, float | None], slots: int = 2, device: str = "cpu") -> History:
    measured = tuple(Measured(config, 1e12, seconds, peak) for config, seconds, peak in jobs)
    return History(device, slots, "a box", measured)


def test_the_nearest_jobs_count() -> None:
    near, stream, far = (LONGER, 10.0, None), (OTHER_HEADS, 20.0, None), (ADDITIVE, 50.0, None)
    assert rate_of(MHAR, history(near, (MHAR, 5.0, None), (LONGER, 8.0, None), stream, far)) == Rate(
        1e11, 1.25e11, 2e11, "3 jobs of this shape on a box"
    )
    assert rate_of(MHAR, history(stream, far)) == Rate(
        2.5e10, 5e10, 1e11, "1 job of this stream and width on a box"
    )
    assert rate_of(MHAR, history(far)) == Rate(1e10, 2e10, 4e10, "1 job of other shapes on a box")


@pytest.mark.parametrize(("device", "model"), [("cpu", CPU_MODEL), ("cuda", GPU_MODEL)])
def test_without_any_a_model_is_stated(device: str, model: tuple[float, float, float]) -> None:
    rate = rate_of(MHAR, history(device=device))
    assert (rate.low, rate.typical, rate.high) == model
    assert rate.basis.startswith("a model, ")
    assert rate.basis.endswith("nothing was measured")


def test_jobs_fill_slots_in_their_order() -> None:
    assert makespan([3, 1, 2, 2], [0, 0]) == 5  # 3+2 on one, 1+2 on the other
    assert makespan([4], [1, 7]) == 7
    assert makespan([], []) == 0


def test_only_jobs_without_a_result_take_time_and_memory() -> None:
    sweep = planned(TEXT)
    known = {position: c.config for position, c in enumerate(sweep.jobs)}
    measured = replace(
        history(*((config, 10.0, 2.0**30 + position) for position, config in known.items())),
        results={sweep.jobs[0].id: 3.0, sweep.jobs[1].id: None},
    )
    cost = forecast(sweep, measured)
    assert cost.time is not None
    left = sweep.jobs[2:]
    seconds = [cost.cells[job.cell].flops / 1e11 for job in left]
    assert cost.time.jobs == len(left) == 4
    assert cost.time.slot_hours.typical == pytest.approx(sum(seconds) / 3600)
    assert cost.time.seconds.typical == pytest.approx(makespan(seconds, [0, 0]))
    assert (cost.time.memory, cost.time.memory_is_measured) == (2.0**30 + 5, True)


def test_max_parallel_bounds_the_slots() -> None:
    eight = history(slots=8, device="cuda")
    for resources, slots in (("max_parallel: 3", 3), ("max_parallel: 9", 8), ("gpu_share: auto", 8)):
        sweep = planned(f"{TEXT}resources: {{{resources}}}")
        time = forecast(sweep, eight).time
        assert time is not None
        assert time.slots == slots


def test_the_noise_decides_what_is_resolved() -> None:
    sweep = planned(TEXT)
    assumed = forecast(sweep).resolution
    measured = forecast(sweep, replace(history(), delta_sd=0.01, delta_cells=6)).resolution
    assert assumed is not None
    assert measured is not None
    assert (assumed.sd, assumed.cells, assumed.comparisons) == (0.005, 0, 2)
    assert (measured.sd, measured.cells) == (0.01, 6)
    assert measured.one == pytest.approx(2 * assumed.one)
    assert measured.family is not None
    assert measured.family > measured.one
    many = TEXT.replace("model.routing_heads: [1, 2]", f"train.peak_lr: {[n / 1e5 for n in range(1, 2001)]}")
    hopeless = forecast(planned(many)).resolution
    assert hopeless is not None
    assert (hopeless.comparisons, hopeless.family) == (2000, None)
    assert forecast(planned(TEXT.replace("[0, 1]", "[0]"))).resolution is None


@pytest.mark.parametrize(
    ("fields", "measured_gib"),
    [
        ({"model.residual": "additive"}, 3.1),
        ({"model.residual": "mhar", "model.routing_heads": 8}, 3.8),
        ({"model.residual": "mhar", "model.routing_heads": 8, "model.block_size": 4}, 3.5),
        ({"model.residual": "hyper_connections", "model.connections": "static"}, 4.3),
        ({"model.residual": "muddformer"}, 4.2),
        ({"model.residual": "mhar_hw", "model.routing_heads": 8}, 4.5),
    ],
)
def test_the_memory_formula_is_near_what_was_measured(fields: dict[str, object], measured_gib: float) -> None:
    shape = {"model.scale": "50m", "train.batch_tokens": 16_384, "data.context": 1024}
    assert peak_memory(job_from_fields(shape | fields)) / 2**30 == pytest.approx(measured_gib, rel=0.12)
