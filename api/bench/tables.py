"""Every table of a sweep, cold and as 304, and the first pages of jobs: one question at a time."""

import asyncio
from collections.abc import Iterator, Sequence

from sqlalchemy import select, update

from headcount.api.bench import filling, instruments, service
from headcount.api.bench.client import Answer, Connection
from headcount.api.results import MEASURED, TABLES
from headcount.orchestrator.bench.figures import Figure, Times
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import Job, Sweep, SweepJob

SWEEPS = "/api/v1/sweeps"
_OF_STREAMS = ("width", "alignment", "scaling")
OF_LOSSES = (
    "table.json",
    "table.csv",
    *(f"tables/{name}.json" for name in TABLES if name not in _OF_STREAMS),
    "free.json?rows=model.routing_heads&columns=model.kv_heads&value=delta&statistic=mean&statistic=se",
)
"""Asked of every sweep of 1,000 jobs once."""
OF_INSTRUMENTS = tuple(f"tables/{name}.json" for name in (*_OF_STREAMS, *MEASURED))
"""Asked of the one sweep that has streams, widths and instruments, `TURNS` times each."""
TURNS = 40
SCALING = "tables/scaling.json"
"""The service keeps the law of the losses that it was asked for; `FITS` times it is asked for others."""
FITS = 3
LARGE = filling.Size("large", 40, 10)


def answers(store: Store, where: service.Running, sweeps: int) -> Iterator[Figure]:
    """What tables and first pages take."""
    return iter(asyncio.run(_answers(store, where, sweeps)))


async def _answers(store: Store, where: service.Running, sweeps: int) -> list[Figure]:
    connection = Connection(where.port)

    async def ask(path: str, etag: str | None = None) -> Answer:
        found = await connection.get(path, etag)
        assert found.status == (304 if etag else 200), f"{found.status} {path}: {found.body[:300]!r}"
        return found

    known = Times()

    async def cold(sweep: str, questions: Sequence[str]) -> dict[str, Times]:
        """What each question takes, by the question."""
        found: dict[str, Times] = {}
        for question in questions:
            _change(store, sweep)  # so that no part is kept from the question before
            path = f"{SWEEPS}/{sweep}/{question}"
            first = await ask(path)
            found[question.partition("?")[0]] = Times([first.milliseconds])
            known.values.append((await ask(path, first.headers["etag"])).milliseconds)
        return found

    losses = _together([await cold(f"bench-{number:03}", OF_LOSSES) for number in range(sweeps)])
    fits = Times()
    for _ in range(FITS):
        _train_again(store, instruments.SIZE.name)
        fits.values += (await cold(instruments.SIZE.name, (SCALING,)))[SCALING].values
    measured = _together([await cold(instruments.SIZE.name, OF_INSTRUMENTS) for _ in range(TURNS)])
    large = _together([await cold(LARGE.name, OF_LOSSES) for _ in range(3)])
    pages = [f"{SWEEPS}/bench-{number:03}/jobs" for number in range(sweeps)]
    of_sweep = Times([(await ask(path)).milliseconds for path in pages])
    # each of another length, so that none is kept
    of_all = Times([(await ask(f"/api/v1/jobs?limit={100 + page}")).milliseconds for page in range(100)])
    connection.close()
    every = [time for found in large.values() for time in found.values]
    return [
        *_by_table("any table of 1,000 jobs, cold, p99", losses | measured),
        Figure("  its law fitted anew, largest", fits.p99, "ms", at_most=100, detail=fits.words()),
        Figure("any table, 304, p99", known.p99, "ms", at_most=20, detail=known.words()),
        Figure(
            "any table of 10,000 jobs, cold, largest",
            max(every),
            "ms",
            at_most=1000,
            detail=Times(every).words(),
        ),
        Figure("first page of a sweep's jobs, p99", of_sweep.p99, "ms", at_most=50, detail=of_sweep.words()),
        Figure("first page of all jobs, p99", of_all.p99, "ms", at_most=50, detail=of_all.words()),
    ]


def _together(turns: Sequence[dict[str, Times]]) -> dict[str, Times]:
    """The times of each question in all turns."""
    return {question: Times([t for turn in turns for t in turn[question].values]) for question in turns[0]}


def _by_table(name: str, times: dict[str, Times]) -> list[Figure]:
    """What all took, and each table by itself, the slowest first."""
    every = Times([t for found in times.values() for t in found.values])
    slowest = sorted(times.items(), key=lambda item: -item[1].median)
    return [
        Figure(name, every.p99, "ms", at_most=100, detail=every.words()),
        *(
            Figure(f"  {question}", found.p99, "ms", at_most=100, detail=found.words())
            for question, found in slowest
        ),
    ]


def _change(store: Store, sweep: str) -> None:
    """As a result would: every answer about the sweep is old now."""
    raised = {"version": Sweep.version + 1, "results_version": Sweep.results_version + 1}
    with store.write() as session:
        session.execute(update(Sweep).where(Sweep.name == sweep).values(**raised))


def _train_again(store: Store, sweep: str) -> None:
    """Let a control of the sweep have another loss, for which no law was fitted yet."""
    one = select(SweepJob.job_id).join(Sweep, Sweep.id == SweepJob.sweep_id)
    one = one.where(Sweep.name == sweep, SweepJob.position == 0)
    with store.write() as session:
        job = session.get_one(Job, session.scalars(one).one())
        assert job.tail_mean is not None
        job.tail_mean *= 1 + 1e-9
