"""What keeps jobs from starting now, as the scheduler found it: nodes refused, cards that others hold, …"""

from collections.abc import Mapping

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from headcount.orchestrator.store.journal import now
from headcount.orchestrator.store.models import Notice


def current_notices(session: Session) -> dict[str, str]:
    """Subject to words, such as `node gpu-3` to why it is refused; the oldest first."""
    rows = session.execute(select(Notice.subject, Notice.words).order_by(Notice.since, Notice.subject))
    return dict(rows.all())


def replace_notices(session: Session, notices: Mapping[str, str]) -> None:
    """Make these the notices that stand; those that stood before keep their time."""
    held = {row.subject: row for row in session.scalars(select(Notice))}
    gone = held.keys() - notices.keys()
    if gone:
        session.execute(delete(Notice).where(Notice.subject.in_(gone)))
    for subject, words in notices.items():
        if subject not in held:
            session.add(Notice(subject=subject, words=words, since=now()))
        elif held[subject].words != words:
            held[subject].words = words
    session.flush()
