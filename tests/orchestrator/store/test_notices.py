"""What keeps jobs from starting is told while it does, and since when."""

from sqlalchemy import select

from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import Notice
from headcount.orchestrator.store.notices import current_notices, replace_notices


def test_a_notice_stands_from_when_it_was_found_until_it_is_not_found_any_more(store: Store) -> None:
    with store.write() as session:
        replace_notices(session, {"node a": "is refused"})
        since = session.scalar(select(Notice.since))
        replace_notices(session, {"card 1 of b": "is held", "node a": "is still refused"})
        assert current_notices(session) == {"node a": "is still refused", "card 1 of b": "is held"}
        assert session.scalar(select(Notice.since).where(Notice.subject == "node a")) == since
        replace_notices(session, {"card 1 of b": "is held"})
        assert current_notices(session) == {"card 1 of b": "is held"}
        replace_notices(session, {})
        assert current_notices(session) == {}
