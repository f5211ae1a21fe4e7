"""A plan in the terminal and as plain data."""

import io
import json

import pytest
from planned import MANIFEST, planned
from rich.console import Console

from headcount.sweeps.forecasting.speed import History
from headcount.sweeps.rendering import amount, plan_as_dict, render_plan
from headcount.trainer.flops import job_flops, parameter_count

TEXT = """\
name: grid
job:
  model: {d_model: 64, layers: 2, heads: 4, kv_heads: 2, d_ff: 192, residual: mhar}
  data: {context: 128}
  train: {steps: 200, batch_tokens: 1024}
axes: {model.routing_heads: [1, 2]}
"""


def printed(text: str, history: History | None = None) -> list[str]:
    screen = io.StringIO()
    render_plan(planned(text), Console(width=120, file=screen), history)
    return [line.rstrip() for line in screen.getvalue().splitlines()]


def test_the_terminal_shows_cells_texts_totals_and_warnings() -> None:
    lines = printed(TEXT + "seeds: [0, 1]")
    rows = [[field.strip() for field in line.strip("│").split("│")] for line in lines if line.startswith("│")]
    assert [row[:4] for row in rows] == [
        ["0", "1", "2", "116k"],
        ["1", "2", "2", "116k"],
        ["2", "", "is one", "115k"],
    ]
    assert lines[-4:] == [
        "Text stdlib: 9M training tokens, fingerprint ffffffffffff",
        "2 treatments and 1 control at 2 seeds: 6 jobs, 1.23M tokens, 1.52T FLOP in all",
        "With 2 seeds, a delta's 95 % interval is ± 9 times the standard deviation of its paired "
        "differences.",
        "At a standard deviation of 0.005 nats (assumed) a difference of 0.058 is found with "
        "80 % probability, 0.12 as one of 2.",
    ]


def test_the_time_and_what_it_rests_on_are_told() -> None:
    lines = printed(TEXT, History(device="cpu", slots=2))
    assert lines[-3:-1] == [
        "3 jobs to train: 0.014 CPU slot-hours (0.00527 to 0.0421); on 2 CPU slots 34 s (13 s to 1:41).",
        "  By a model, 5 to 40 GFLOP/s a CPU thread: nothing was measured.",
    ]
    results = {job.id: 3.25 for job in planned(TEXT).jobs}
    nothing_left = printed(TEXT, History(device="cpu", slots=2, results=results))
    assert nothing_left[-2] == "Every job has its result: nothing would be trained."
    assert any(line.startswith("Peak memory of a job: 0.0") for line in printed(TEXT, History("cuda", 1)))


def test_a_warning_stands_last_and_a_long_table_is_cut() -> None:
    lines = printed(TEXT.replace("[1, 2]", "[1]") + "seeds: [0]\ncontrol: none")
    assert lines[-3:] == [
        "1 treatment and 0 controls at 1 seed: 1 job, 205k tokens, 255G FLOP in all",
        "Warning: no controls: the table will have losses and no deltas",
        "Warning: one seed: a delta has no interval and no p-value; two or more seeds give them",
    ]
    rates = TEXT.replace("[1, 2]", f"[1], train.peak_lr: {[n / 1000 for n in range(1, 51)]}")
    assert "… and 60 more cells" in printed(rates)


def test_the_plain_data_hold_every_cell_and_job() -> None:
    result = planned(TEXT)
    held = json.loads(json.dumps(plan_as_dict(result)))
    treatment, control = result.jobs[1], result.jobs[0]
    assert held["cells"][1] == {
        "position": 1,
        "settings": {"model.routing_heads": 2},
        "is_control": False,
        "control": 2,
        "parameters": parameter_count(result.jobs[2].config),
        "tokens": 204_800,
        "flops": job_flops(result.jobs[2].config),
    }
    assert held["jobs"][1] == {
        "position": 1,
        "id": treatment.id,
        "cell": 0,
        "seed": 0,
        "control_id": control.id,
    }
    assert held["datasets"] == [json.loads(MANIFEST.to_json())]
    flops = sum(cell["flops"] for cell in held["cells"])
    assert held["totals"] == {"cells": 3, "controls": 1, "jobs": 3, "tokens": 614_400, "flops": flops}
    assert (held["name"], held["description"], held["half_width"]) == ("grid", "", None)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1k"),
        (204_800, "205k"),
        (999_499, "999k"),
        (999_500, "1M"),
        (1.5e9, "1.5B"),
    ],
)
def test_amounts_have_three_digits(value: float, text: str) -> None:
    assert amount(value) == text
