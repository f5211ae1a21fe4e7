"""A scheduler process from its start to its end."""

import logging
import os
import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from headcount.orchestrator.scheduling.lease import Lease, LeaseLost, await_lease
from headcount.orchestrator.scheduling.waits import Waits
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import open_store
from headcount.trainer.errors import UserError

log = logging.getLogger(__name__)


def serve(
    settings: Settings,
    ray_address: str | None,
    attached: bool,
    metrics_port: int | None = None,
    stand_by: bool = False,
) -> int:
    """Schedule until told to end; the exit code. `metrics_port` is where Prometheus may ask for figures.

    On SIGTERM or SIGINT running jobs write a checkpoint and go back to the queue. `attached` to a parent, the
    process also ends when its standard input closes, and leaves the slots at work for the next scheduler.

    With `stand_by`, while another schedules this one waits for its turn.

    Raises `LeaseHeld` where another schedules and this one is not to wait, and `UserError` where Ray cannot
    be used.
    """
    told, orphaned = threading.Event(), threading.Event()
    _on_signals(told)
    if attached:
        threading.Thread(target=_wait_for_end_of_input, args=(orphaned,), daemon=True).start()
    store, waits = open_store(settings), Waits()
    if metrics_port is not None:
        from headcount.orchestrator.scheduling.metrics import HOST, serve_metrics

        port = serve_metrics(metrics_port, store, waits)
        log.info("figures for Prometheus at http://%s:%d/metrics", HOST, port)
    if stand_by:
        lease = await_lease(store, lambda: told.is_set() or orphaned.is_set())
    else:
        lease = Lease.acquire(store)
    if lease is None:
        return 0
    try:
        return _schedule(settings, ray_address, lease, waits, told, orphaned)
    finally:
        with suppress(Exception):
            lease.release()


def _schedule(
    settings: Settings,
    ray_address: str | None,
    lease: Lease,
    waits: Waits,
    told: threading.Event,
    orphaned: threading.Event,
) -> int:
    """Work as the lease's holder until told to end; the exit code. Raises `UserError`."""
    from headcount.orchestrator.cluster.connection import Cluster
    from headcount.orchestrator.scheduling.scheduler import Scheduler

    def lost(reason: str) -> NoReturn:
        log.warning("%s; the next scheduler starts from the store", reason)
        with suppress(Exception):
            lease.release()
        os._exit(1)

    cluster = Cluster(settings, ray_address, lost)
    _on_signals(told)  # Ray has put its own in place
    scheduler = Scheduler(lease, cluster, waits)
    log.info("scheduling with lease %d on Ray at %s", lease.epoch, cluster.address)
    try:
        scheduler.run(lambda: told.is_set() or orphaned.is_set())
    except LeaseLost:
        log.warning("another scheduler has taken over")
        return 1
    except UserError:
        scheduler.dismiss_all()
        cluster.close()
        raise
    if orphaned.is_set():
        log.info("the command that this scheduler served has ended; slots go on")
        lease.release()
        os._exit(0)
    scheduler.stop()
    cluster.close()
    return 0


def _on_signals(told: threading.Event) -> None:
    def tell(number: int, frame: FrameType | None) -> None:
        told.set()

    signal.signal(signal.SIGTERM, tell)
    signal.signal(signal.SIGINT, tell)


def _wait_for_end_of_input(ended: threading.Event) -> None:
    while os.read(0, 1024):
        pass
    ended.set()
