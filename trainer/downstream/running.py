"""Tasks of lm-eval over a trained model: their figures, and the score of every item."""

import os
import random
from collections.abc import Mapping, Sequence
from contextlib import chdir, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from lm_eval.api.model import LM
from lm_eval.evaluator import evaluate
from lm_eval.tasks import TaskManager

from headcount.trainer.errors import UserError, nearest

_FEWSHOT_SEED = 1234
_BOOTSTRAPS = 1000
"""Resamples for the standard error of metrics without a closed form, such as perplexity."""


@dataclass(frozen=True)
class TaskFigure:
    """A metric over a task's items; `stderr` is over items, None where lm-eval has none."""

    task: str
    metric: str
    value: float
    stderr: float | None


@dataclass(frozen=True)
class Downstream:
    """Figures of tasks. `items[task][metric]` has each item's score by the item's place in the task.

    A score is what lm-eval keeps of the item before it aggregates: 0 or 1 of accuracy, a log-likelihood of
    perplexity, and of a weighted perplexity the log-likelihood for each word, or byte, of the item.
    """

    figures: tuple[TaskFigure, ...]
    items: Mapping[str, Mapping[str, Mapping[int, float]]]

    def measurements(self) -> dict[str, float]:
        """Figures and their standard errors, by the names they have in the store."""
        named: dict[str, float] = {}
        for figure in self.figures:
            name = f"downstream.{figure.task}.{figure.metric}"
            named[name] = figure.value
            if figure.stderr is not None:
                named[f"{name}.stderr"] = figure.stderr
        return named

    def to_record(self) -> dict[str, Any]:
        return asdict(self)


def joined(outcomes: Sequence[Downstream]) -> Downstream:
    """Of tasks that were run one by one."""
    figures = tuple(figure for outcome in outcomes for figure in outcome.figures)
    items = {task: scores for outcome in outcomes for task, scores in outcome.items.items()}
    return Downstream(figures, items)


def run_tasks(
    model: LM,
    tasks: Sequence[str],
    *,
    include: Path | None = None,
    data: Path | None = None,
    limit: int | None = None,
) -> Downstream:
    """The tasks' figures for the model.

    tasks: names that lm-eval knows, or that a YAML file in the folder `include` gives. data: a folder with
    data sets of the hub, each as `OWNER/NAME`, which are read from there. limit: only the first items of
    each task. Raises `UserError` for an unknown task, and where a task's data cannot be read.
    """
    include = include.absolute() if include else None
    manager = TaskManager(include_path=include, include_defaults=False)
    if not set(tasks) <= set(manager.all_tasks):  # lm-eval's own are thousands of files to look through
        manager = TaskManager(include_path=include)
    check_known(tasks, manager.all_tasks)
    random.seed(0)
    np.random.seed(_FEWSHOT_SEED)  # some tasks of lm-eval draw from the global generators
    try:
        # a folder here by the name of a data set on the hub is read in its place
        with chdir(data) if data else nullcontext():
            loaded = manager.load(list(tasks))
    except (OSError, ValueError) as error:  # of the datasets library: no such files, parts or network
        where = f" in {data}" if data else ""
        raise UserError(f"cannot read the data of {', '.join(tasks)}{where}: {error}") from error
    for task in loaded["tasks"].values():
        if task.get_config("num_fewshot") is None:
            task.set_config(key="num_fewshot", value=0)
        task.set_fewshot_seed(seed=_FEWSHOT_SEED)
    os.environ.setdefault("DISABLE_MULTIPROC", "1")  # its pool would fork a process that holds a GPU
    results: Any = evaluate(model, loaded, limit=limit, bootstrap_iters=_BOOTSTRAPS)
    return Downstream(
        tuple(figure for name in results["results"] for figure in _figures(name, results["results"][name])),
        {name: _items(samples) for name, samples in results["samples"].items()},
    )


def check_known(tasks: Sequence[str], known: Sequence[str]) -> None:
    """Raise `UserError` for the first task that is not known."""
    for name in tasks:
        if name not in known:
            raise UserError(f"lm-eval has no task {name!r}; {nearest(name, known)}")


def _figures(task: str, result: Mapping[str, Any]) -> list[TaskFigure]:
    """lm-eval names a figure `metric,filter`, and its error `metric_stderr,filter`."""
    figures = []
    for key, value in result.items():
        metric, comma, rule = key.partition(",")
        if not comma or metric.endswith("_stderr") or not isinstance(value, int | float):
            continue
        error = result.get(f"{metric}_stderr,{rule}")
        stderr = float(error) if isinstance(error, int | float) else None
        figures.append(TaskFigure(task, _name(metric, rule), float(value), stderr))
    return figures


def _items(samples: Sequence[Mapping[str, Any]]) -> dict[str, dict[int, float]]:
    items: dict[str, dict[int, float]] = {}
    for sample in samples:
        for metric in sample["metrics"]:
            match sample[metric]:
                case bool() | int() | float() | np.number() as number:
                    score = float(number)
                case (float() as found, int() as weight):
                    score = found / weight
                case _:  # whole texts, as of BLEU: no score an item
                    continue
            items.setdefault(_name(metric, sample["filter"]), {})[int(sample["doc_id"])] = score
    return items


def _name(metric: str, rule: str) -> str:
    return metric if rule == "none" else f"{metric} ({rule})"
