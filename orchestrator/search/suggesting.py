"""The next point of a search: Optuna's samplers as a pure function of the trials so far.

Nothing of Optuna lives between two suggestions. A study is made in memory from what the store has, asked once
with a sampler seeded by the search's seed and the trial's number, and dropped: after a crash the next
scheduler suggests what this one would have.
"""

import hashlib
import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from headcount.sweeps.file.spec import SweepSpec

if TYPE_CHECKING:
    import optuna

STARTUP_TRIALS = 10
"""Drawn at random before `tpe` and `gp` have something to go by; Optuna's own default."""

_NEEDS = {"gp": ("torch",), "cmaes": ("cmaes",)}
"""What methods need beside Optuna."""


@dataclass(frozen=True)
class PastTrial:
    """A suggestion that was made, and what it came to."""

    settings: Mapping[str, Any]
    value: float | None
    """None where it failed, or is still open."""
    is_open: bool = False
    pruned_at: int | None = None
    """The step at which it was given up, `value` being its loss there."""


def suggest(spec: SweepSpec, past: Sequence[PastTrial]) -> dict[str, Any]:
    """The settings of trial number `len(past)`. Of the last trials, fewer than `parallel`, no value is used.

    Raises `UserError` where Optuna, or what the method needs, is not installed.
    """
    assert spec.search is not None
    optuna = _optuna(spec)
    seen = _as_seen(past, len(past), spec.search.parallel)
    space = _space(spec)
    study = optuna.create_study(sampler=_sampler(spec, len(past)))
    if spec.search.method == "cmaes":
        _replay(study, spec, past, space)
    else:
        for trial in seen:
            study.add_trial(_frozen(trial, space))
    asked = study.ask(space).params
    return {
        axis: spec.ranges[axis].clipped(asked[axis]) if axis in spec.ranges else asked[axis]
        for axis in spec.axes
    }


def _as_seen(past: Sequence[PastTrial], number: int, parallel: int) -> list[PastTrial]:
    """What trial `number` may know of those before it: the latest are open, ended or not."""
    settled = max(0, number - parallel + 1)
    return [*past[:settled], *(PastTrial(t.settings, None, is_open=True) for t in past[settled:number])]


def _replay(study: "optuna.Study", spec: SweepSpec, past: Sequence[PastTrial], space: dict[str, Any]) -> None:
    """Ask again for every trial: the state of CMA-ES is the course of its questions and answers.

    The points that come out are those that were suggested; where they are not, as after an edit of the file,
    the stored ones stand.
    """
    assert spec.search is not None
    told = 0
    for number, trial in enumerate(past):
        told = _tell(study, past, told, number - spec.search.parallel + 1)
        study.sampler = _sampler(spec, number)
        study.enqueue_trial(dict(trial.settings))
        # a point that is given is not sampled before this is asked for, and only sampling moves CMA-ES on
        _ = study.ask(space).relative_params
    _tell(study, past, told, len(past) - spec.search.parallel + 1)
    study.sampler = _sampler(spec, len(past))


def _tell(study: "optuna.Study", past: Sequence[PastTrial], start: int, end: int) -> int:
    """Tell the values of the trials from `start` to before `end`; the first that is not told yet."""
    from optuna.trial import TrialState

    for number in range(start, max(start, end)):
        value = past[number].value
        # CMA-ES knows no pruned trial: the loss where it was given up, behind the median, stands for it
        study.tell(number, value) if value is not None else study.tell(number, state=TrialState.FAIL)
    return max(start, end)


def check_needs(spec: SweepSpec) -> None:
    """Whether this Python can suggest for the search. Raises `UserError` with what it lacks."""
    assert spec.search is not None
    for name in ("optuna", *_NEEDS.get(spec.search.method, ())):
        if find_spec(name) is None:
            raise spec.error(f"the scheduler's Python lacks {name}; there: pip install {name}", "search")


def _optuna(spec: SweepSpec) -> Any:
    check_needs(spec)
    import optuna

    logging.getLogger("optuna").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna


def _sampler(spec: SweepSpec, number: int) -> Any:
    """Seeded by the search's seed and the trial's number, so that no earlier draw matters."""
    from optuna import samplers

    assert spec.search is not None
    drawn = hashlib.sha256(f"{spec.search.seed} {number}".encode()).digest()
    seed = int.from_bytes(drawn[:4], "big") // 2
    match spec.search.method:
        case "tpe":
            return samplers.TPESampler(
                seed=seed, multivariate=True, constant_liar=True, n_startup_trials=STARTUP_TRIALS
            )
        case "gp":
            return samplers.GPSampler(seed=seed, n_startup_trials=STARTUP_TRIALS)
        case "cmaes":
            return samplers.CmaEsSampler(seed=seed)
        case "random":
            return samplers.RandomSampler(seed=seed)


def _space(spec: SweepSpec) -> dict[str, Any]:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    space: dict[str, Any] = {}
    for axis, values in spec.axes.items():
        span = spec.ranges.get(axis)
        if span is None:
            space[axis] = CategoricalDistribution(values)
        elif isinstance(span.low, int):
            space[axis] = IntDistribution(span.low, int(span.high), log=span.log)
        else:
            space[axis] = FloatDistribution(span.low, span.high, log=span.log)
    return space


def _frozen(trial: PastTrial, space: dict[str, Any]) -> "optuna.trial.FrozenTrial":
    from optuna.trial import TrialState, create_trial

    state, value, curve = TrialState.COMPLETE, trial.value, None
    if trial.is_open:
        state, value = TrialState.RUNNING, None
    elif trial.value is None:
        state = TrialState.FAIL
    elif trial.pruned_at is not None:
        state, value, curve = TrialState.PRUNED, None, {trial.pruned_at: trial.value}
    return create_trial(
        state=state,
        value=value,
        params=dict(trial.settings),
        distributions=space,
        intermediate_values=curve,
    )
