"""Answers kept for a client that asks again with the same idempotency key, so that work is done once."""

from datetime import timedelta

from sqlalchemy import and_, delete, or_
from sqlalchemy.orm import Session

from headcount.orchestrator.store.journal import now
from headcount.orchestrator.store.models import Answer

KEPT = timedelta(hours=24)
ABANDONED = timedelta(minutes=10)
"""After which a question without an answer is taken for one whose service died over it."""


def claim(session: Session, caller: str, key: str, question: str) -> Answer | None:
    """What is kept under a caller's key; None where nothing was, and the key is now this question's.

    `question` is a hash of what is asked. The answer's content is None while another works on it.
    """
    old = Answer.created < now() - KEPT
    dead = and_(Answer.content.is_(None), Answer.created < now() - ABANDONED)
    session.execute(delete(Answer).where(or_(old, dead)))
    kept = session.get(Answer, (caller, key))
    if kept is None:
        session.add(Answer(caller=caller, key=key, question=question, created=now()))
    return kept


def keep_answer(session: Session, caller: str, key: str, content: str) -> None:
    """Answer a claimed key; belongs in the transaction of the work itself."""
    session.get_one(Answer, (caller, key)).content = content


def let_go(session: Session, caller: str, key: str) -> None:
    """Give up a claim whose work failed, so that the client may try again."""
    unanswered = delete(Answer).where(Answer.content.is_(None))
    session.execute(unanswered.where(Answer.caller == caller, Answer.key == key))
