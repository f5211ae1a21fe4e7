"""The header Idempotency-Key: a request that is sent again gets the same answer, and does nothing twice."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

from fastapi import Header
from sqlalchemy.orm import Session

from headcount.api.problems import Problem
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.answers import claim, keep_answer, let_go

IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=255,
        pattern=r"^[!-~]+$",
        description="Any text of your choice: the same again within a day gets the same answer.",
    ),
]


@dataclass(frozen=True)
class Claim:
    """A key in work, or answered before."""

    caller: str
    key: str | None
    answer: str | None
    """As it was kept; None where the work is still to do."""

    def keep(self, session: Session, content: str) -> None:
        """Keep the answer, in the transaction of the work."""
        if self.key is not None:
            keep_answer(session, self.caller, self.key, content)


@contextmanager
def claimed(store: Store, caller: str, key: str | None, question: str) -> Iterator[Claim]:
    """Hold a key while the block works; let go of it when the block fails, so that nothing is kept of that.

    Raises a `Problem` for a key whose first request is in work (409) or asked something else (422).
    """
    if key is None:
        yield Claim(caller, None, None)
        return
    with store.write() as session:
        kept = claim(session, caller, key, question)
    if kept is None:
        try:
            yield Claim(caller, key, None)
        except BaseException:
            with store.write() as session:
                let_go(session, caller, key)
            raise
    elif kept.question != question:
        raise Problem(422, "key_reused", "this Idempotency-Key was sent with another request; take a new one")
    elif kept.content is None:
        raise Problem(
            409, "key_in_use", "the first request with this key is not answered yet", {"Retry-After": "1"}
        )
    else:
        yield Claim(caller, key, kept.content)
