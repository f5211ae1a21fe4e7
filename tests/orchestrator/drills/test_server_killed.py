"""PostgreSQL is killed while jobs tell and begin: what it had not on its disk yet is told again."""

import threading

import pytest
from own_postgres import crash, own_postgres, url_of
from scheduled import asked_for, attempts, reports, settled, work

from headcount.orchestrator.bench.stand_in import StandIn
from headcount.orchestrator.bench.trivial import REPORTS
from headcount.orchestrator.store import open_store


@pytest.mark.parametrize("kills", [1, pytest.param(5, marks=pytest.mark.drill)], ids=["once", "often"])
def test_a_killed_server_costs_no_result_and_no_second_attempt(kills: int) -> None:
    jobs = 50 * (1 + kills)
    with own_postgres() as server:
        store = open_store(url_of(server))
        asked_for(store, jobs)
        cluster = StandIn(slots=5, job_seconds=0.05)
        killed: list[threading.Thread] = []

        def until() -> bool:
            if killed and killed[-1].is_alive():
                return False
            if len(killed) < kills and len(cluster.jobs) > 40 * (1 + len(killed)):
                killed.append(threading.Thread(target=crash, args=(server,)))
                killed[-1].start()
                return False
            return len(cluster.jobs) >= jobs and settled(store) == {"finished": jobs}

        work(store, cluster, until, 30)
        assert len(killed) == kills
        assert attempts(store) == [("finished", jobs)]
        assert len(cluster.jobs) == jobs, "a job was trained twice"
        assert reports(store) == jobs * len(REPORTS)
        print(f"PostgreSQL killed {kills} times: {jobs} jobs finished once each")
        store.close()
