"""The ready-made studies: each one plans."""

from pathlib import Path

import pytest
from click.testing import CliRunner

import headcount.sweeps
from headcount.__main__ import cli
from headcount.sweeps.file.spec import load_spec
from headcount.sweeps.forecasting.forecast import forecast
from headcount.sweeps.planning.plan import Plan, plan
from headcount.trainer.data import Manifest
from headcount.trainer.errors import UserError

STUDIES = sorted(Path(headcount.sweeps.__path__[0]).glob("*.yaml"))
MANIFEST = Manifest("f" * 64, "stdlib", 256, 4_000_000_000, 50_000_000, 1_000, 4_050_000_000)


def planned(path: Path) -> Plan:
    return plan(load_spec(path), lambda config: MANIFEST)


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_study_plans_without_a_warning_and_is_named_as_its_file(path: Path) -> None:
    result = planned(path)
    assert result.spec.name == path.stem.replace("_", "-")
    assert result.spec.description
    assert forecast(result).warnings == ()


@pytest.mark.parametrize(
    ("name", "treatments", "controls", "jobs"),
    [
        ("quickstart", 8, 2, 20),
        ("head_count", 60, 12, 216),
        ("residual_family", 25, 1, 52),
        ("main_loss", 9, 3, 36),
        ("best_lr", 27, 9, 108),
        ("seed_robustness", 9, 3, 36),
        ("under_trained_grid", 20, 4, 72),
        ("width_control", 4, 2, 18),
        ("head_alignment", 6, 3, 27),
        ("query_probe", 4, 4, 24),
        ("training_speed", 6, 3, 18),
        ("temperature_control", 5, 1, 30),
    ],
)
def test_a_study_has_the_size_that_its_comment_says(
    name: str, treatments: int, controls: int, jobs: int
) -> None:
    result = planned(next(path for path in STUDIES if path.stem == name))
    assert sum(not cell.is_control for cell in result.cells) == treatments
    assert sum(cell.is_control for cell in result.cells) == controls
    assert len(result.jobs) == jobs


def test_the_search_has_at_most_the_size_that_its_comment_says() -> None:
    result = planned(next(path for path in STUDIES if path.stem == "rate_search"))
    assert result.jobs == ()
    assert result.to_come is not None
    assert result.to_come.jobs == 54


def test_the_command_lists_them_and_prints_the_file_of_one() -> None:
    listed = CliRunner().invoke(cli, ["studies"], catch_exceptions=False)
    assert [line.split()[0] for line in listed.output.splitlines()] == [
        path.stem.replace("_", "-") for path in STUDIES
    ]
    printed = CliRunner().invoke(cli, ["studies", "best-lr"], catch_exceptions=False)
    assert printed.output == (STUDIES[0].parent / "best_lr.yaml").read_text()
    with pytest.raises(UserError, match="no study 'best_lr'; did you mean 'best-lr'"):
        CliRunner().invoke(cli, ["studies", "best_lr"], catch_exceptions=False)
