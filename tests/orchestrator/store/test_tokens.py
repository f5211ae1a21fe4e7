"""Tokens and logins: shown once, told apart from mistyped ones, and over when they expire or are revoked."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select, update

from headcount.orchestrator.store import Store
from headcount.orchestrator.store.journal import now
from headcount.orchestrator.store.models import Event, Login, Token
from headcount.orchestrator.store.tokens import (
    any_token,
    close_login,
    create_token,
    find_login,
    find_token,
    is_well_formed,
    open_login,
    revoke_token,
    usable_tokens,
)
from headcount.trainer.errors import UserError

HOUR = timedelta(hours=1)


def test_a_token_is_found_by_its_text_which_is_not_kept(store: Store) -> None:
    with store.write() as session:
        assert not any_token(session)
        text = create_token(session, "ada", "submit", expires=None, by="root")
    assert text.startswith("hc_")
    assert len(text) == 49
    with store.read() as session:
        found = find_token(session, text)
        assert found is not None
        assert (found.name, found.scopes, found.start) == ("ada", ["read", "submit"], text[:7])
        kept = [value for row in session.execute(select(Token.__table__)) for value in row]
        assert text not in kept
        (event,) = session.scalars(select(Event))
        assert (event.kind, event.sweep_id, event.detail["by"]) == ("token_created", None, "root")
        assert text not in str(event.detail)


def test_expired_and_revoked_tokens_are_not_found_but_the_service_stays_closed(store: Store) -> None:
    with store.write() as session:
        old = create_token(session, "old", "read", expires=now() - HOUR, by="root")
        young = create_token(session, "young", "admin", expires=now() + HOUR, by="root")
    with store.read() as session:
        assert find_token(session, old) is None
        assert find_token(session, young) is not None
        assert usable_tokens(session) == 1
    with store.write() as session:
        revoke_token(session, "young", by="root")
    with store.read() as session:
        assert find_token(session, young) is None
        assert (usable_tokens(session), any_token(session)) == (0, True)
        assert session.scalars(select(Event.kind).order_by(Event.id)).all()[-1] == "token_revoked"


def test_a_name_is_free_again_once_its_token_is_revoked(store: Store) -> None:
    with store.write() as session:
        first = create_token(session, "ada", "read", expires=None, by="root")
    with store.write() as session, pytest.raises(UserError, match="there is a token called 'ada'"):
        create_token(session, "ada", "read", expires=None, by="root")
    with store.write() as session:
        revoke_token(session, "ada", by="root")
        second = create_token(session, "ada", "read", expires=None, by="root")
    with store.read() as session:
        assert find_token(session, first) is None
        assert find_token(session, second) is not None


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 201])
def test_a_name_is_plain(store: Store, name: str) -> None:
    with store.write() as session, pytest.raises(UserError, match="printable"):
        create_token(session, name, "read", expires=None, by="root")


def test_revoking_what_is_not_there_names_the_nearest(store: Store) -> None:
    with store.write() as session, pytest.raises(UserError, match="no token is called 'ada'; there is none"):
        revoke_token(session, "ada", by="root")
    with store.write() as session:
        create_token(session, "ada", "read", expires=None, by="root")
    with store.write() as session, pytest.raises(UserError, match="did you mean 'ada'"):
        revoke_token(session, "adda", by="root")


def test_a_login_ends_with_its_time_its_logout_and_its_token(store: Store) -> None:
    with store.write() as session:
        text = create_token(session, "ada", "read", expires=None, by="root")
        token = find_token(session, text)
        assert token is not None
        cookies = [open_login(session, token, HOUR) for _ in range(3)]
    with store.read() as session:
        assert [find_login(session, c) for c in cookies] == [session.get_one(Token, token.id)] * 3
        assert find_login(session, text) is None
    with store.write() as session:
        close_login(session, cookies[0])
        one = select(Login.sha256).limit(1).scalar_subquery()
        session.execute(update(Login).where(Login.sha256 == one).values(expires=now() - HOUR))
    with store.read() as session:
        assert sum(find_login(session, c) is not None for c in cookies) == 1
    with store.write() as session:
        revoke_token(session, "ada", by="root")
    with store.read() as session:
        assert [find_login(session, c) for c in cookies] == [None] * 3


@settings(deadline=None)
@given(st.text(max_size=60))
def test_no_other_text_has_the_checksum(text: str) -> None:
    assert not is_well_formed(text)
    assert not is_well_formed("hc_" + text)


def test_a_mistyped_token_is_known_as_one(store: Store) -> None:
    with store.write() as session:
        text = create_token(session, "ada", "read", expires=None, by="root")
    assert is_well_formed(text)
    for position in range(3, len(text)):
        other = "a" if text[position] != "a" else "b"
        assert not is_well_formed(text[:position] + other + text[position + 1 :])
    assert not is_well_formed(text[:-1])
