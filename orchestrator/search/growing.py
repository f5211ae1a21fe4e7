"""The scheduler's part in sweeps that add to themselves: a step of each whenever its results have changed."""

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.orchestrator.scheduling.lease import Lease
from headcount.orchestrator.search.steps import refine_step, search_step, seeds_step
from headcount.orchestrator.search.suggesting import suggest
from headcount.orchestrator.store import StoreUnavailable
from headcount.orchestrator.store.growth import stop_growing, trials_so_far
from headcount.orchestrator.store.models import Sweep
from headcount.sweeps.file.spec import SweepSpec, parse_spec
from headcount.trainer.errors import UserError

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5


class _Asked(NamedTuple):
    """A question to a sampler that is on its way: which file asked, and for which trial."""

    spec: SweepSpec
    number: int
    answer: "Future[dict[str, Any]]"


class Growing:
    """Looks at the sweeps that grow. Samplers think in a thread of their own: slots are never kept waiting.

    What it remembers only saves work: the store decides what is asked, and the next scheduler asks the same.
    """

    def __init__(self, lease: Lease, look_seconds: float = LOOK_SECONDS) -> None:
        self.lease, self.look_seconds = lease, look_seconds
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sampler")
        self._asked: dict[int, _Asked] = {}
        self._seen: dict[int, int] = {}
        self._specs: dict[int, SweepSpec] = {}
        self._looked = 0.0

    def step(self) -> None:
        """Take every growing sweep as far as its results allow now. Raises `LeaseLost`."""
        if time.monotonic() - self._looked < self.look_seconds:
            return
        self._looked = time.monotonic()
        with self.lease.store.read() as session:
            growing = session.execute(
                select(Sweep.id, Sweep.version).where(Sweep.growth == "growing").order_by(Sweep.id)
            ).all()
        for sweep_id, version in growing:
            asked = self._asked.get(sweep_id)
            if self._seen.get(sweep_id) != version or (asked is not None and asked.answer.done()):
                self._grow(sweep_id)
                self._seen[sweep_id] = version

    @property
    def is_thinking(self) -> bool:
        """Whether a suggestion is on its way, or waits to be taken in."""
        return bool(self._asked)

    def close(self) -> None:
        """Wait for no sampler any more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _grow(self, sweep_id: int) -> None:
        try:
            with self.lease.write() as session:
                sweep = session.get_one(Sweep, sweep_id)
                spec = self._specs.get(sweep_id)
                known = spec and (spec.name, spec.text, spec.initial)
                if spec is None or known != (sweep.name, sweep.yaml, _initial(sweep)):
                    spec = self._specs[sweep_id] = spec_of(sweep)
                if spec.search is not None:
                    self._search(session, sweep, spec)
                elif spec.refine is not None:
                    refine_step(session, sweep, spec)
                elif spec.seed_rule is not None:
                    seeds_step(session, sweep, spec)
        except UserError as error:
            if isinstance(error, StoreUnavailable):
                raise
            log.warning("sweep %d adds nothing more: %s", sweep_id, error)
            self._asked.pop(sweep_id, None)
            with self.lease.write() as session:
                stop_growing(session, session.get_one(Sweep, sweep_id), "stopped", str(error))

    def _search(self, session: Session, sweep: Sweep, spec: SweepSpec) -> None:
        suggested = None
        asked = self._asked.get(sweep.id)
        if asked is not None and asked.answer.done():
            del self._asked[sweep.id]
            if asked.spec.text == spec.text and asked.number == trials_so_far(session, sweep.id):
                suggested = _answer(asked)
        past = search_step(session, sweep, spec, suggested)
        if past is not None and sweep.id not in self._asked:
            self._asked[sweep.id] = _Asked(spec, len(past), self._thread.submit(suggest, spec, past))


def spec_of(sweep: Sweep) -> SweepSpec:
    """The sweep's file as it was submitted last, with the weights that it started from then."""
    spec = parse_spec(sweep.yaml, sweep.name, Path(sweep.folder) if sweep.folder else None)
    return replace(spec, initial=_initial(sweep))


def _initial(sweep: Sweep) -> dict[str, Any]:
    initial: dict[str, Any] = (sweep.adaptive or {}).get("initial", {})
    return initial


def _answer(asked: _Asked) -> dict[str, Any]:
    """What the sampler suggests. Raises `UserError` where it cannot, so that one search ends and not all."""
    try:
        return asked.answer.result()
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"no suggestion for trial {asked.number}: {type(error).__name__}: {error}") from error
