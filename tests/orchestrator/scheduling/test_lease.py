"""One scheduler at a time, on both engines, also when a holder dies."""

import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import select, update

from headcount.orchestrator.scheduling import lease as lease_module
from headcount.orchestrator.scheduling.lease import (
    Lease,
    LeaseHeld,
    LeaseLost,
    await_lease,
    current_holder,
)
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.journal import now
from headcount.orchestrator.store.models import Lease as LeaseRow
from headcount.orchestrator.store.models import Sweep


def test_a_second_scheduler_is_told_who_holds_the_lease(store: Store) -> None:
    assert current_holder(store) is None
    lease = Lease.acquire(store)
    with pytest.raises(LeaseHeld, match=r"another scheduler is at work: process \d+ on "):
        Lease.acquire(store)
    assert current_holder(store) is not None
    lease.release()
    assert current_holder(store) is None
    again = Lease.acquire(store)
    assert again.epoch == lease.epoch + 1
    again.release()


def test_a_holder_that_lost_the_lease_writes_no_more(store: Store) -> None:
    old = Lease.acquire(store)
    _let_expire(store)
    if store.file is not None:
        old._file.close()  # type: ignore[union-attr]  # as the kernel does when its holder dies
    new = Lease.acquire(store)
    with pytest.raises(LeaseLost), old.write() as session:
        session.add(Sweep(name="x", yaml="", axes={}, seeds=[], analysis={}, owner="", created=now()))
    with pytest.raises(LeaseLost):
        old.renew()
    with new.write() as session:
        assert session.scalars(select(Sweep)).all() == []
    new.release()


def test_renewing_holds_on(store: Store) -> None:
    lease = Lease.acquire(store)
    _let_expire(store)
    lease.renew()
    with pytest.raises(LeaseHeld):
        Lease.acquire(store)
    lease.release()


def test_a_killed_holder_of_a_file_lock_is_followed_at_once(store: Store) -> None:
    if store.file is None:
        pytest.skip("on PostgreSQL the lease runs out instead")
    code = (
        "import sys, time\n"
        "from headcount.orchestrator.scheduling.lease import Lease\n"
        "from headcount.orchestrator.store import open_store\n"
        "lease = Lease.acquire(open_store(sys.argv[1]))\n"
        "print('held', flush=True)\n"
        "time.sleep(60)\n"
    )
    url = store.engine.url.render_as_string()
    with subprocess.Popen([sys.executable, "-c", code, url], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(LeaseHeld, match=f"process {holder.pid} on"):
            Lease.acquire(store)
        holder.kill()
    lease = Lease.acquire(store)
    assert lease.epoch == 2
    lease.release()


def _waiting(store: Store, is_over: Callable[[], bool]) -> tuple[threading.Thread, list[Lease | None]]:
    """A stand-by at work, and what it ends with."""
    found: list[Lease | None] = []
    thread = threading.Thread(target=lambda: found.append(await_lease(store, is_over)))
    thread.start()
    return thread, found


def test_one_of_those_that_stand_by_takes_over(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_module, "STAND_BY_SECONDS", 0.02)
    holder, is_over = Lease.acquire(store), threading.Event()
    waiting = [_waiting(store, is_over.is_set) for _ in range(2)]
    waiting[0][0].join(0.3)
    assert all(thread.is_alive() for thread, _ in waiting)
    holder.release()
    while not any(found for _, found in waiting):
        waiting[0][0].join(0.02)
    is_over.set()
    for thread, _ in waiting:
        thread.join(10)
    [taken] = [lease for _, found in waiting for lease in found if lease is not None]
    assert taken.epoch == holder.epoch + 1
    taken.release()


def _let_expire(store: Store) -> None:
    with store.write() as session:
        session.execute(update(LeaseRow).values(expires=now() - timedelta(seconds=1)))
