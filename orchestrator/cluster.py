"""The one place that talks to Ray: connecting, and making, finding and losing slots."""

import contextlib
import hashlib
import logging
import os
import socket
import time
from collections.abc import Iterable
from typing import IO, Any

from headcount.orchestrator import local_ray
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.slot import Slot, actor_options
from headcount.trainer.errors import UserError

HEALTH_SECONDS = 1.0


class ClusterLost(Exception):
    """Ray has gone. Slots may be gone too; the store knows all that matters."""


class Cluster:
    """A connection to Ray, in a namespace of this store's own."""

    def __init__(self, settings: Settings, ray_address: str | None) -> None:
        """Connect to `ray_address`, or to this home's own Ray, started where need be. Raises `UserError`."""
        self.settings = settings
        self.is_local = ray_address is None
        self._hold: IO[bytes] | None = None
        if ray_address is None:
            self._hold = local_ray.hold(settings.home)
            running = local_ray.start(settings.home)
            os.environ.update(running.environment())
            ray_address = running.address
        else:
            _check_reachable(ray_address)
            os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        import ray

        self._ray: Any = ray
        try:
            ray.init(
                address=ray_address,
                namespace=_namespace(settings),
                log_to_driver=False,
                configure_logging=False,
                logging_level=logging.ERROR,
            )
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise UserError(f"cannot reach Ray at {ray_address}: {error}") from error
        self._actor = ray.remote(Slot)
        self.address = ray.get_runtime_context().gcs_address
        self._checked = time.monotonic()

    def check(self) -> None:
        """Raises `ClusterLost` where Ray answers no more; asks at most once a second."""
        if time.monotonic() - self._checked < HEALTH_SECONDS:
            return
        self._checked = time.monotonic()
        host, _, port = self.address.rpartition(":")
        if not any(_answers(host, port) for _ in range(3)):
            raise ClusterLost(f"Ray at {self.address} does not answer")

    def size(self) -> tuple[int, bool]:
        """How many slots the cluster can hold, and whether they hold a GPU each."""
        resources = self._ray.cluster_resources()
        gpus = int(resources.get("GPU", 0))
        return (gpus, True) if gpus else (int(resources.get("CPU", 0)), False)

    def create(self, name: str, uses_gpu: bool) -> Any:
        """A new slot's handle; it may take a while until the slot answers."""
        options = actor_options(name, uses_gpu)
        home, artifacts = str(self.settings.home), str(self.settings.artifacts)
        return self._actor.options(**options).remote(home, artifacts, self.is_local)

    def live_slots(self) -> dict[str, Any]:
        """The handles of this store's slots that are alive, by name."""
        handles = {}
        for name in self._ray.util.list_named_actors():
            with contextlib.suppress(ValueError):
                handles[name] = self._ray.get_actor(name)
        return handles

    def kill(self, handle: Any) -> None:
        self._ray.kill(handle)

    def ready(self, asked: Iterable[Any], seconds: float) -> list[Any]:
        """Those of the pending answers that are there, after at most `seconds` without any."""
        pending = list(asked)
        if not pending:
            time.sleep(seconds)
            return []
        first, rest = self._ray.wait(pending, num_returns=1, timeout=seconds)
        if not first or not rest:
            return list(first)
        more, _ = self._ray.wait(rest, num_returns=len(rest), timeout=0.01)
        return [*first, *more]

    def get(self, answer: Any, seconds: float = 0) -> Any:
        """The value of an answer. Raises what `why_lost` explains, or GetTimeoutError."""
        return self._ray.get(answer, timeout=seconds)

    def why_lost(self, error: Exception, where: str) -> tuple[str, str] | None:
        """Cause and message of a slot that did not answer; none where it may still be alive."""
        errors = self._ray.exceptions
        if isinstance(error, errors.ActorUnavailableError | errors.GetTimeoutError):
            return None
        words = str(error).strip()
        if isinstance(error, errors.OutOfMemoryError) or "memory pressure" in words:
            return "host_memory", words
        return self.cause_at(where), words

    def cause_at(self, where: str) -> str:
        """Why a slot that was on a node is gone: with its node, or alone."""
        alive = {node["NodeID"] for node in self._ray.nodes() if node["Alive"]}
        return "slot_lost" if where.rpartition("/")[2] in alive else "node_lost"

    def close(self) -> None:
        """Disconnect; this home's own Ray ends too, unless another still uses it."""
        self._ray.shutdown()
        if self._hold is not None:
            self._hold.close()
            local_ray.stop(self.settings.home)


def _check_reachable(address: str) -> None:
    """Ray itself would try for minutes. Raises `UserError`."""
    if "://" in address:
        raise UserError(f"cannot use Ray at {address}: run on one of its nodes, and give HOST:PORT or 'auto'")
    host, separator, port = address.rpartition(":")
    if separator and not _answers(host, port):
        raise UserError(f"cannot reach Ray at {address}: nothing answers there")


def _answers(host: str, port: str) -> bool:
    with contextlib.suppress(OSError, ValueError), socket.create_connection((host, int(port)), timeout=5):
        return True
    return False


def _namespace(settings: Settings) -> str:
    """Slots of two stores on one cluster never meet."""
    return f"headcount-{hashlib.sha256(settings.database_url.encode()).hexdigest()[:16]}"
