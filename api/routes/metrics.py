"""The service's figures for Prometheus: its requests, and what the store knows."""

from fastapi import APIRouter, Depends, Request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.responses import Response

from headcount.api.dependencies import StoreDep, no_query
from headcount.api.observing import Figures
from headcount.api.problems import responses
from headcount.api.security import needs
from headcount.orchestrator.scheduling.metrics import StoreCollector

router = APIRouter(tags=["service"], responses=responses(503))


@router.get(
    "/metrics",
    response_class=Response,
    openapi_extra=needs("read"),
    dependencies=[Depends(no_query)],
    responses={200: {"description": "In Prometheus' text format.", "content": {"text/plain": {}}}},
)
def get_metrics(request: Request, store: StoreDep) -> Response:
    """Requests of this service, and of the store its jobs by state, attempts by cause, and events."""
    figures: Figures = request.app.state.figures
    of_store = CollectorRegistry()
    of_store.register(StoreCollector(store))
    text = generate_latest(figures.registry) + generate_latest(of_store)
    return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST, "Cache-Control": "no-store"})
