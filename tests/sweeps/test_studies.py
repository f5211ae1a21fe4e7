"""The ready-made studies: each one plans, whole and small, and jobs of every kind train."""

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from small_jobs import words_dataset

import headcount.sweeps
from headcount.__main__ import cli
from headcount.sweeps.file.spec import load_spec, parse_spec
from headcount.sweeps.forecasting.forecast import forecast
from headcount.sweeps.planning.plan import Plan, plan
from headcount.sweeps.rendering import counted
from headcount.sweeps.studies import Study, studies, study_files
from headcount.trainer.config import JobConfig, effective_fields, fields_of, job_from_fields
from headcount.trainer.data import Dataset, Manifest
from headcount.trainer.errors import UserError
from headcount.trainer.events import Result
from headcount.trainer.loop import train

STUDIES = sorted(Path(headcount.sweeps.__path__[0]).glob("*.yaml"))
MANIFEST = Manifest("f" * 64, "stdlib", 256, 4_000_000_000, 50_000_000, 1_000, 4_050_000_000)

FOR_TWO_CORES = {"quickstart", "rate-search", "residual-family"}
"""Small as they are."""

WARNED = dict.fromkeys(
    ("compact_rates", "compact_control_rates", "speed_at_paper_shapes"),
    ("one seed: a delta has no interval and no p-value; two or more seeds give them",),
)


def planned(path: Path, small: bool = False) -> Plan:
    return plan(load_spec(path, small), lambda config: MANIFEST)


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_study_plans_without_a_warning_and_is_named_as_its_file(path: Path) -> None:
    result = planned(path)
    assert result.spec.name == path.stem.replace("_", "-")
    assert result.spec.description
    assert forecast(result).warnings == WARNED.get(path.stem, ())


@pytest.mark.parametrize("study", [s for s in studies() if s.has_small], ids=lambda study: study.name)
def test_a_small_variant_plans_without_a_warning_and_is_small(study: Study) -> None:
    result = study.plan(small=True)
    assert result.spec.name == f"{study.name}-small"
    cost = forecast(result)
    assert cost.warnings == WARNED.get(study.path.stem, ())
    assert cost.flops < 5e14  # a second of a GPU's time
    assert len(result.jobs) <= 60
    assert {axis for axis in study.plan().spec.axes if axis != "model.scale"} <= {*result.spec.axes}


def test_every_study_that_is_not_small_has_a_small_variant() -> None:
    assert {study.name for study in studies() if not study.has_small} == FOR_TWO_CORES


@pytest.mark.parametrize(
    ("name", "treatments", "controls", "jobs"),
    [
        ("quickstart", 8, 2, 20),
        ("head_count", 60, 12, 216),
        ("head_count_1b", 5, 1, 18),
        ("residual_family", 25, 1, 52),
        ("main_loss", 9, 3, 36),
        ("best_lr", 27, 9, 108),
        ("seed_robustness", 9, 3, 36),
        ("under_trained_grid", 20, 4, 72),
        ("width_control", 4, 2, 18),
        ("head_alignment", 6, 3, 27),
        ("query_probe", 4, 4, 24),
        ("training_speed", 6, 3, 18),
        ("routing_speed", 6, 3, 18),
        ("speed_at_paper_shapes", 6, 2, 8),
        ("temperature_control", 5, 1, 30),
        ("compact_head_count", 20, 4, 72),
        ("compact_rates", 60, 12, 72),
        ("compact_control_rates", 6, 3, 9),
        ("compact_temperature", 5, 1, 18),
        ("compact_fresh_seeds", 5, 1, 48),
        ("compact_residuals", 18, 1, 38),
        ("downstream", 3, 3, 18),
        ("midtraining", 1, 1, 6),
    ],
)
def test_a_study_has_the_size_that_its_comment_says(
    name: str, treatments: int, controls: int, jobs: int
) -> None:
    path = next(path for path in STUDIES if path.stem == name)
    result = planned(path)
    assert sum(not cell.is_control for cell in result.cells) == treatments
    assert sum(cell.is_control for cell in result.cells) == controls
    assert len(result.jobs) == jobs
    if name != "quickstart":  # which explains the product instead
        comment = path.read_text().replace("\n# ", " ")
        assert f"{counted(treatments, 'cell')} and " in comment
        assert f" are {jobs} jobs" in comment


@pytest.mark.parametrize(
    ("name", "kind", "whole", "small"),
    [("query_probe", "probe", 12, 6), ("downstream", "evaluate", 18, 0), ("midtraining", "evaluate", 6, 0)],
)
def test_finished_jobs_are_looked_at(name: str, kind: str, whole: int, small: int) -> None:
    study = next(study for study in studies() if study.path.stem == name)
    for is_small, count in ((False, whole), (True, small)):
        assert [asked.kind for asked in study.plan(is_small).instruments] == [kind] * count


def test_the_compact_studies_share_the_jobs_that_their_comment_says() -> None:
    by_name = {
        path.stem: {job.id for job in planned(path).jobs} for path in STUDIES if "compact" in path.stem
    }
    shared = {name: len(jobs & by_name["compact_head_count"]) for name, jobs in by_name.items()}
    assert shared == {
        "compact_head_count": 72,
        "compact_rates": 24,
        "compact_control_rates": 3,
        "compact_temperature": 9,
        "compact_fresh_seeds": 0,
        "compact_residuals": 4,
    }


def test_the_search_has_at_most_the_size_that_its_comment_says() -> None:
    result = planned(next(path for path in STUDIES if path.stem == "rate_search"))
    assert result.jobs == ()
    assert result.to_come is not None
    assert result.to_come.jobs == 54


def kinds() -> dict[str, JobConfig]:
    """One job of each kind that a small variant trains: what makes its model another one than by default."""
    # one number of heads or factor of their logits trains as another
    sizes = {"routing_heads", "logit_scale", "d_model", "layers", "heads", "kv_heads", "d_ff", "vocab_size"}
    default = effective_fields(job_from_fields({}))
    found: dict[str, JobConfig] = {}
    for study in studies():
        if study.has_small:
            for job in study.plan(small=True).jobs:
                fields = effective_fields(job.config).items()
                kind = {
                    name.removeprefix("model."): value
                    for name, value in fields
                    if name.startswith("model.") and default.get(name) != value
                }
                words = " ".join(f"{name}={value}" for name, value in kind.items() if name not in sizes)
                found.setdefault(words, job.config)
    return found


KINDS = kinds()


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return words_dataset(tmp_path_factory.mktemp("home"), 8000, context=32)


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_of_each_kind_trains(kind: str, text: Dataset) -> None:
    """Its model and recipe over few steps of a short text: the loss falls from that of guessing."""
    fields = fields_of(KINDS[kind])
    short = {"train.steps": 12, "train.warmup_steps": 1, "train.eval_every": 1, "train.eval_windows": 1}
    size = {"model.layers": 2, "data.context": 32, "train.batch_tokens": 128, "train.peak_lr": 3e-3}
    anew = {"init.weights": "", "train.ema_decay": 0}
    events = list(train(job_from_fields({**fields, **short, **size, **anew}), text))
    assert isinstance(events[-1], Result)
    assert events[-1].outcome == "finished"
    assert events[-1].tail_mean is not None
    assert 1 < events[-1].tail_mean < 4.5


def test_the_command_lists_the_jobs_and_hours_of_both_forms() -> None:
    listed = CliRunner().invoke(cli, ["studies"], catch_exceptions=False).output
    rows = {line.split()[0]: line.split() for line in listed.splitlines()}
    assert [name for name in rows if name in study_files()] == [*study_files()]
    assert rows["main-loss"][1:6] == ["36", "254", "16", "<", "0.1"]
    assert rows["quickstart"][1:4] == ["20", "<", "0.1"]


def test_the_command_prints_the_file_of_one() -> None:
    printed = CliRunner().invoke(cli, ["studies", "best-lr"], catch_exceptions=False)
    assert printed.output == (STUDIES[0].parent / "best_lr.yaml").read_text()
    small = CliRunner().invoke(cli, ["studies", "best-lr", "--small"], catch_exceptions=False)
    assert parse_spec(small.output, "best-lr") == replace(
        load_spec(STUDIES[0].parent / "best_lr.yaml", small=True), origin="best-lr", text=small.output
    )
    with pytest.raises(UserError, match="no study 'best_lr'; did you mean 'best-lr'"):
        CliRunner().invoke(cli, ["studies", "best_lr"], catch_exceptions=False)
    with pytest.raises(UserError, match="name it, as in 'headcount studies best-lr --small'"):
        CliRunner().invoke(cli, ["studies", "--small"], catch_exceptions=False)
