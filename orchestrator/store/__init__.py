"""The store: models, migrations, and the only functions that write to it."""

from headcount.orchestrator.store.engine import Store, StoreUnavailable
from headcount.orchestrator.store.opening import open_store
from headcount.orchestrator.store.submission import Submission, submit
from headcount.orchestrator.store.wishes import withdraw

__all__ = ["Store", "StoreUnavailable", "Submission", "open_store", "submit", "withdraw"]
