"""Downstream tasks of the model that a command names."""

from collections.abc import Callable
from pathlib import Path

from headcount.orchestrator.instruments.models import find_model
from headcount.orchestrator.instruments.writing import tokenizer_of
from headcount.orchestrator.settings import Settings
from headcount.sweeps.statistics.items import ItemDifference, item_difference
from headcount.trainer.errors import UserError
from headcount.trainer.job_files.model_file import load_model

try:
    from headcount.trainer.downstream.model import DownstreamModel
    from headcount.trainer.downstream.running import Downstream, run_tasks
except ModuleNotFoundError as error:
    raise UserError(f"evaluate needs {error.name}: pip install 'headcount[evaluate]'") from error


def evaluate_model(
    name: str,
    settings: Settings,
    tasks: list[str],
    *,
    include: Path | None,
    data: Path | None,
    limit: int | None,
    tokenizer: str | None,
    device: str,
) -> Downstream:
    """The tasks' figures for the model that `name` means, in the tokens of its data set.

    Raises `UserError` as `find_model`, `tokenizer_of` and `run_tasks` do.
    """
    model = open_model(find_model(name, settings), settings.home, tokenizer, device)
    return run_tasks(model, tasks, include=include, data=data, limit=limit)


def open_model(
    file: Path, home: Path, tokenizer: str | None, device: str, stop: Callable[[], bool] = lambda: False
) -> DownstreamModel:
    """The model in `file` as lm-eval asks it, until `stop()`.

    Raises `UserError` as `load_model` and `tokenizer_of` do.
    """
    model, metadata = load_model(file, device)
    return DownstreamModel(model, tokenizer_of(metadata["headcount.fingerprint"], home, tokenizer), stop)


def differences(first: Downstream, second: Downstream) -> dict[tuple[str, str], ItemDifference]:
    """First minus second by task and metric, over the same items."""
    return {
        (task, metric): item_difference(scores, second.items[task][metric])
        for task, metrics in first.items.items()
        for metric, scores in metrics.items()
    }
