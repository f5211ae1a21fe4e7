"""What the service tells of its requests: figures for Prometheus, and a line of JSON for each in the log."""

import logging
import os
from time import perf_counter
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, values
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headcount.api.workers import SHARED_FIGURES

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Seconds: the upper ends of the buckets; one more takes the rest."""

log = logging.getLogger("headcount.requests")


class Figures:
    """Of the requests to this service, in all of its processes."""

    def __init__(self) -> None:
        self._own = CollectorRegistry()
        if SHARED_FIGURES in os.environ:  # prometheus_client itself looks once, when it is imported
            values.ValueClass = values.MultiProcessValue()  # type: ignore[no-untyped-call]
        self._requests = Counter(
            "headcount_requests", "Requests answered.", ["method", "route", "status"], registry=self._own
        )
        self._seconds = Histogram(
            "headcount_request_seconds",
            "From a request to the end of its answer; live streams are not in it.",
            ["route"],
            buckets=BOUNDS,
            registry=self._own,
        )
        self.under_way = Gauge(
            "headcount_requests_under_way",
            "Requests whose answer has not ended, live streams among them.",
            registry=self._own,
            multiprocess_mode="livesum",
        )

    def count(self, method: str, route: str, status: int, seconds: float | None) -> None:
        """One answer; `seconds` is none for a live stream."""
        self._requests.labels(method, route, str(status)).inc()
        if seconds is not None:
            self._seconds.labels(route).observe(seconds)

    @property
    def registry(self) -> CollectorRegistry:
        """What is answered to Prometheus."""
        if SHARED_FIGURES not in os.environ:
            return self._own
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return registry


class Observer:
    """The layer around all others: counts a request, and logs it when its answer has ended."""

    def __init__(self, app: ASGIApp, figures: Figures) -> None:
        self.app, self.figures = app, figures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status, is_stream = perf_counter(), 500, False

        async def send_noted(message: Message) -> None:
            nonlocal status, is_stream
            if message["type"] == "http.response.start":
                status = message["status"]
                is_stream = any(b"event-stream" in value for _, value in message.get("headers", ()))
            await send(message)

        self.figures.under_way.inc()
        try:
            await self.app(scope, receive, send_noted)
        finally:
            self.figures.under_way.dec()
            seconds = perf_counter() - began
            route = getattr(scope.get("route"), "path", None) or "none"
            self.figures.count(scope["method"], route, status, None if is_stream else seconds)
            if log.isEnabledFor(logging.INFO):
                log.info("%s %r", scope["method"], scope["path"], extra=_facts(scope, route, status, seconds))


def _facts(scope: Scope, route: str, status: int, seconds: float) -> dict[str, Any]:
    """What the line of a request holds. Neither query, nor headers: they may hold a secret."""
    state, named = scope.get("state", {}), scope.get("path_params", {})
    caller, client = state.get("caller"), scope.get("client")
    found = {
        "request": state.get("request_id"),
        "method": scope["method"],
        "route": route,
        "status": status,
        "seconds": round(seconds, 6),
        "client": client[0] if client else None,
        "caller": caller.name if caller else None,
        "sweep": named.get("sweep"),
        "job": named.get("job"),
    }
    return {name: value for name, value in found.items() if value is not None}
