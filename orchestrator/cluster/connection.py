"""The one place that talks to Ray: connecting, and making, finding and losing slots."""

import contextlib
import hashlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

from headcount.orchestrator.cluster import local_ray
from headcount.orchestrator.cluster.warden import Warden, warden_options
from headcount.orchestrator.scheduling.demand import ACCELERATOR_LABEL, Demand
from headcount.orchestrator.scheduling.placement import Making
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.slots.slot import Slot, actor_options
from headcount.trainer.errors import UserError

log = logging.getLogger(__name__)

HEALTH_SECONDS = 0.5
MOST_FAILURES = 3
GET_SECONDS = 10.0
MOMENT_EACH = 5e-5
MOST_MOMENT = 0.05


@dataclass(frozen=True)
class NodeFacts:
    """A node as Ray knows it."""

    host: str
    cpus: int
    gpus: int
    accelerator: str | None


class Cluster:
    """A connection to Ray, in a namespace of this store's own."""

    slot_class = Slot

    def __init__(self, settings: Settings, ray_address: str | None, lost: Callable[[str], NoReturn]) -> None:
        """Connect to `ray_address`, or to this home's own Ray, started where need be.

        `lost` is called, on another thread, when Ray answers no more: it has to end the process, since a call
        to Ray may then hang for minutes. Raises `UserError` where there is no Ray to begin with.
        """
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
        self._watch = _Watch(ray_address, lost)
        if ":" in ray_address:
            self._watch.start()
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
            if self.is_local:
                raise  # it answered a moment ago: not the user's mistake
            raise UserError(f"cannot reach Ray at {ray_address}: {error}") from error
        self._actor = ray.remote(self.slot_class)
        self.address: str = ray.get_runtime_context().gcs_address
        self.own_node: str = ray.get_runtime_context().get_node_id()
        self._gcs: Any = None

    def nodes(self) -> dict[str, NodeFacts]:
        """The nodes that are alive, by Ray's id."""
        return {
            node["NodeID"]: NodeFacts(
                host=node["NodeManagerHostname"],
                cpus=int(node["Resources"].get("CPU", 0)),
                gpus=int(node["Resources"].get("GPU", 0)),
                accelerator=node.get("Labels", {}).get(ACCELERATOR_LABEL),
            )
            for node in self._ray.nodes()
            if node["Alive"]
        }

    def draining(self) -> dict[str, float | None]:
        """The nodes that are about to go, and the seconds that each has left; none where it did not say."""
        from ray._raylet import GcsClient  # type: ignore[attr-defined]

        if self._gcs is None:
            self._gcs = GcsClient(address=self.address)
        try:
            deadlines = self._gcs.get_draining_nodes()
        except Exception as error:  # Ray's internal client: its errors are its own
            log.warning("Ray does not tell which nodes are draining: %s", error)
            return {}
        return {node: ms / 1000 - time.time() if ms else None for node, ms in deadlines.items()}

    def declared_maximum(self) -> dict[str, float] | None:
        """What the largest node that there may be has of each resource; none where nobody declared it."""
        from ray._private.state import state

        config = state.get_cluster_config()
        groups = [group.resources for group in config.node_group_configs if group.max_count] if config else []
        if not groups:
            return None
        return {name: float(max(group.get(name, 0) for group in groups)) for name in set().union(*groups)}

    def request(self, demand: Demand) -> None:
        """Ask Ray's autoscaler for what `demand` needs, in place of what was asked for before."""
        from ray.autoscaler.sdk import request_resources

        request_resources(**demand.as_request())

    def shared_folders(self) -> list[Path]:
        """The folders that every node has to see; none where each fetches what it needs."""
        if self.settings.artifacts_url:
            return []
        return [self.settings.artifacts, self.settings.home / "data"]

    def create(self, name: str, making: Making, with_gpus: bool) -> Any | None:
        """A new slot's handle, who may take a while to answer; none where its node has just gone."""
        options = actor_options(name, len(making.cards) if with_gpus else 0, making.share)
        home, artifacts = str(self.settings.home), str(self.settings.artifacts)
        try:
            on_node = self._actor.options(**options, scheduling_strategy=self._on(making.node))
            return on_node.remote(home, artifacts, self.is_local, self.settings.artifacts_url)
        except ValueError as error:
            log.info("no slot on node %s: %s", making.node[:8], error)
            return None

    def warden(self, node: str) -> Any:
        """A new warden's handle."""
        options = warden_options()
        return self._ray.remote(Warden).options(**options, scheduling_strategy=self._on(node)).remote()

    def _on(self, node: str) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return NodeAffinitySchedulingStrategy(node, soft=False)

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
        """Those of the pending answers that are there, after at most `seconds` without any.

        After the first a moment is waited for more, the longer the more are pending: a round of the scheduler
        costs less for each the more there are.
        """
        pending = list(asked)
        if not pending:
            time.sleep(seconds)
            return []
        first, rest = self._ray.wait(pending, num_returns=1, timeout=seconds)
        if not first or not rest:
            return list(first)
        moment = min(MOST_MOMENT, MOMENT_EACH * len(rest))
        more, _ = self._ray.wait(rest, num_returns=len(rest), timeout=moment)
        return [*first, *more]

    def get(self, answer: Any) -> Any:
        """The value of an answer that is there. Raises what `why_lost` explains."""
        return self._ray.get(answer, timeout=GET_SECONDS)

    def why_lost(self, error: Exception, where: str) -> tuple[str, str] | None:
        """Cause and message of a slot that did not answer; none where it may still be alive."""
        errors = self._ray.exceptions
        if isinstance(error, errors.ActorUnavailableError | errors.GetTimeoutError):
            return None
        words = str(error).strip()
        if isinstance(error, errors.OutOfMemoryError) or "memory pressure" in words:
            return "host_memory", words
        return "slot_lost" if node_id(where) in self.live_nodes() else "node_lost", words

    def live_nodes(self) -> set[str]:
        """The ids of the cluster's nodes that are alive."""
        return {node["NodeID"] for node in self._ray.nodes() if node["Alive"]}

    def close(self) -> None:
        """Disconnect; this home's own Ray ends too, unless another still uses it."""
        self._watch.ended.set()
        self._ray.shutdown()
        if self._hold is not None:
            self._hold.close()
            local_ray.stop(self.settings.home)


def node_id(where: str) -> str:
    """Ray's id in a node's name as `Slot.where` gives it."""
    return where.rpartition("/")[2]


class _Watch(threading.Thread):
    """Tells when nothing answers at Ray's address any more; Ray itself would wait a minute."""

    def __init__(self, address: str, lost: Callable[[str], NoReturn]) -> None:
        super().__init__(daemon=True)
        self._address, self._lost = address, lost
        self.ended = threading.Event()

    def run(self) -> None:
        host, _, port = self._address.rpartition(":")
        failures = 0
        while not self.ended.wait(HEALTH_SECONDS):
            failures = 0 if _answers(host, port) else failures + 1
            if failures == MOST_FAILURES:
                self._lost(f"Ray at {self._address} does not answer any more")


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
