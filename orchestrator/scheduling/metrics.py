"""Figures for Prometheus, of a store and its scheduler. What the store knows is read when it is asked for."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from sqlalchemy import func, select

from headcount.orchestrator.scheduling.waits import Waits
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import CAUSES, JOB_STATES, Attempt, Event, Job
from headcount.trainer.errors import UserError

HOST = "127.0.0.1"


class StoreCollector(Collector):
    """Figures of one store, and of the scheduler that works on it where its `waits` are given."""

    def __init__(self, store: Store, waits: Waits | None = None) -> None:
        self._store, self._waits = store, waits

    def describe(self) -> Iterator[Metric]:
        """Nothing beforehand: registering must not ask the store."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        with self._store.read() as session:
            states = dict(session.execute(select(Job.state, func.count()).group_by(Job.state)).all())
            ended = select(Attempt.cause, func.count()).where(Attempt.cause.is_not(None))
            causes = dict(session.execute(ended.group_by(Attempt.cause)).all())
            events = session.scalar(select(func.max(Event.id))) or 0
        jobs = GaugeMetricFamily("headcount_jobs", "Jobs of the store.", labels=["state"])
        for state in JOB_STATES:
            jobs.add_metric([state], states.get(state, 0))
        yield jobs
        attempts = CounterMetricFamily(
            "headcount_attempts", "Attempts that have ended, by their cause.", labels=["cause"]
        )
        for cause in CAUSES:
            attempts.add_metric([cause], causes.get(cause, 0))
        yield attempts
        yield CounterMetricFamily("headcount_events", "Events written to the store.", value=events)
        if self._waits is None:
            return
        waits = HistogramMetricFamily(
            "headcount_dispatch_seconds",
            "From a free slot and a queued job to the job's dispatch, since this scheduler started.",
        )
        waits.add_metric([], buckets=self._waits.cumulative(), sum_value=self._waits.sum)
        yield waits


def serve_metrics(port: int, store: Store, waits: Waits) -> int:
    """Answer on `port` of the loopback address until the process ends; port 0 takes a free one, returned.

    Raises `UserError` for a port that is in use.
    """
    registry = CollectorRegistry()
    registry.register(StoreCollector(store, waits))
    try:
        server, _ = start_http_server(port, addr=HOST, registry=registry)
    except OSError as error:
        raise UserError(f"--metrics-port {port}: {error.strerror}; choose another") from error
    return int(server.server_port)
