"""Who may take over from whom, before any scheduler is started."""

from dataclasses import replace
from pathlib import Path

from headcount.orchestrator.scheduling.supervisor import Supervisor
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import open_store


def test_only_followers_of_one_store_on_one_ray_go_on_for_each_other(tmp_path: Path) -> None:
    here = Settings(tmp_path, f"sqlite:///{tmp_path / 'a.db'}", tmp_path)
    there = replace(here, database_url=f"sqlite:///{tmp_path / 'b.db'}")
    store = open_store(here)
    with Supervisor(here, store, None) as first:
        with Supervisor(there, store, None), Supervisor(here, store, "127.0.0.1:6379"):
            assert first.is_alone
        with Supervisor(here, store, None) as second:
            assert (first.is_alone, second.is_alone) == (False, False)
        assert first.is_alone
    store.close()
