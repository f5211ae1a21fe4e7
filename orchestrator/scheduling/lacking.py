"""What jobs wait for: asked of the cluster, and told to people through the store."""

import logging
from collections.abc import Collection

from headcount.orchestrator.cluster.connection import Cluster
from headcount.orchestrator.cluster.nodes import Nodes
from headcount.orchestrator.scheduling.demand import Demand, beyond_maximum, demand
from headcount.orchestrator.scheduling.lease import Lease
from headcount.orchestrator.scheduling.placement import Decisions
from headcount.orchestrator.scheduling.seats import Seat
from headcount.orchestrator.scheduling.turns import Turn
from headcount.orchestrator.store.models import Sweep
from headcount.orchestrator.store.notices import replace_notices

log = logging.getLogger(__name__)


class Lacking:
    """Remembers what was asked and told last: only what is new is asked or told again."""

    def __init__(self, lease: Lease, cluster: Cluster, nodes: Nodes) -> None:
        self.lease, self.cluster, self.nodes = lease, cluster, nodes
        self._demand = Demand()
        self._notices: dict[str, str] | None = None

    def tell(self, decisions: Decisions, seats: Collection[Seat], with_gpus: bool) -> None:
        """Ask the cluster for what is lacking, and tell people what keeps jobs from starting."""
        busy = [seat.held for seat in seats if seat.work or not seat.where]
        if not self.cluster.is_local:
            missing = [turn for turn in decisions.nowhere if not self._refused(turn, with_gpus)]
            self._ask_for(demand([*decisions.wait, *missing], busy, with_gpus))
        notices = self.nodes.notices(seats)
        nowhere = {turn.sweep_id: turn for turn in decisions.nowhere}
        if self.nodes.all_heard:
            with self.lease.store.read() as session:
                for sweep_id, turn in nowhere.items():
                    sweep = session.get(Sweep, sweep_id)
                    name = sweep.name if sweep else sweep_id
                    notices[f"sweep {name}"] = self._why_nowhere(turn, with_gpus)
        if notices != self._notices:
            with self.lease.write() as session:
                replace_notices(session, notices)
            self._notices = notices
            for subject, words in notices.items():
                log.warning("%s: %s", subject, words)

    def withdraw(self) -> None:
        """Ask the cluster for nothing any more."""
        self._ask_for(Demand())

    def _why_nowhere(self, turn: Turn, with_gpus: bool) -> str:
        if words := self._refused(turn, with_gpus):
            return f"its jobs cannot start: {words}"
        if not with_gpus and turn.need.accelerator is None:
            return "its jobs wait: no node that may hold slots has a processor for them"
        kind = f" of kind {turn.need.accelerator}" if turn.need.accelerator else ""
        share = "" if turn.need.share is None else f" with {turn.need.share:g} of it free"
        cards = "card" if turn.need.gpus == 1 else f"{turn.need.gpus} cards"
        return f"its jobs wait: no node of the cluster now has a {cards}{kind}{share}"

    def _refused(self, turn: Turn, with_gpus: bool) -> str | None:
        return beyond_maximum(turn, self.nodes.maximum, with_gpus)

    def _ask_for(self, wanted: Demand) -> None:
        if wanted != self._demand:
            self.cluster.request(wanted)
            self._demand = wanted
