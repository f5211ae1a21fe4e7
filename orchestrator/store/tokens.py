"""Credentials of the service: shown once, kept as a hash, and what each may do."""

import hashlib
import secrets
import string
import zlib
from datetime import datetime, timedelta
from typing import Literal

from sqlalchemy import ColumnElement, delete, func, or_, select, update
from sqlalchemy.orm import Session

from headcount.orchestrator.store.journal import now, record
from headcount.orchestrator.store.models import Login, Token
from headcount.trainer.errors import UserError, nearest

TokenScope = Literal["read", "submit", "admin"]
SCOPES: tuple[TokenScope, ...] = ("read", "submit", "admin")
"""Each includes those before it."""

PREFIX = "hc_"
_ALPHABET = string.digits + string.ascii_letters
_RANDOM = 40
"""Characters by chance: 238 bits."""
_CHECK = 6
"""Characters of the checksum, which tells a mistyped token from an unknown one."""

USE_GRAIN = timedelta(hours=1)
"""How exactly the time of last use is kept: a write for each use would cost more than it tells."""


def create_token(session: Session, name: str, scope: TokenScope, *, expires: datetime | None, by: str) -> str:
    """Store a token that has `scope` and those below it, and return its text, which is kept nowhere.

    Raises `UserError` where an unrevoked token has the name, or the name is not a plain one.
    """
    if not name.strip() or len(name) > 200 or not name.isprintable():
        raise UserError("a token's name is 1 to 200 printable characters")
    if name in _unrevoked(session):
        raise UserError(f"there is a token called {name!r}; revoke it first, or choose another name")
    text = PREFIX + _with_checksum("".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM)))
    scopes = list(SCOPES[: SCOPES.index(scope) + 1])
    start = text[: len(PREFIX) + 4]
    session.add(
        Token(name=name, start=start, sha256=_hash(text), scopes=scopes, created=now(), expires=expires)
    )
    until = expires.isoformat() if expires else None
    record(session, "token_created", token=name, start=start, scopes=scopes, expires=until, by=by)
    return text


def revoke_token(session: Session, name: str, *, by: str) -> None:
    """End a token and the logins made with it. Raises `UserError` where no unrevoked one has the name."""
    names = _unrevoked(session)
    if name not in names:
        hint = nearest(name, names) if names else "there is none; `headcount token list` shows the revoked"
        raise UserError(f"no token is called {name!r}; {hint}")
    revoked = select(Token.id).where(Token.name == name, Token.revoked.is_(None))
    session.execute(delete(Login).where(Login.token_id.in_(revoked)))
    session.execute(update(Token).where(Token.name == name, Token.revoked.is_(None)).values(revoked=now()))
    record(session, "token_revoked", token=name, by=by)


def find_token(session: Session, text: str) -> Token | None:
    """The token with this text, if it may be used now."""
    if not is_well_formed(text):
        return None
    return session.scalar(select(Token).where(Token.sha256 == _hash(text), *_usable()))


def is_usable(session: Session, token_id: int) -> bool:
    """Whether a token that was found before may still be used."""
    return session.scalar(select(Token.id).where(Token.id == token_id, *_usable())) is not None


def any_token(session: Session) -> bool:
    """Whether there is or ever was a token: from then on the service asks for one."""
    # asked at every request, and faster so than through the session
    return session.connection().execute(_ANY).first() is not None


_ANY = select(Token.__table__.c.id).limit(1)


def usable_tokens(session: Session) -> int:
    """How many tokens may be used now."""
    return session.scalar(select(func.count()).select_from(Token).where(*_usable())) or 0


def note_use(session: Session, token_id: int) -> None:
    """Keep that a token is used now."""
    session.execute(update(Token).where(Token.id == token_id).values(last_used=now()))


def is_well_formed(text: str) -> bool:
    """Whether the checksum fits: a token that was typed or copied whole."""
    body = text.removeprefix(PREFIX)
    return text.startswith(PREFIX) and body.isascii() and body == _with_checksum(body[:_RANDOM])


def open_login(session: Session, token: Token, lifetime: timedelta) -> str:
    """Let a browser in that showed `token`; what its cookie is to hold. Removes logins that have ended."""
    session.execute(delete(Login).where(Login.expires < now()))
    text = secrets.token_urlsafe(32)
    session.add(Login(sha256=_hash(text), token_id=token.id, expires=now() + lifetime))
    record(session, "logged_in", token=token.name)
    return text


def find_login(session: Session, text: str) -> Token | None:
    """The token behind a cookie, if the login and the token may be used now."""
    logins = select(Token).join(Login, Login.token_id == Token.id)
    return session.scalar(logins.where(Login.sha256 == _hash(text), Login.expires > now(), *_usable()))


def close_login(session: Session, text: str) -> None:
    """End the login of a cookie, if there is one."""
    session.execute(delete(Login).where(Login.sha256 == _hash(text)))


def _usable() -> tuple[ColumnElement[bool], ...]:
    return Token.revoked.is_(None), or_(Token.expires.is_(None), Token.expires > now())


def _unrevoked(session: Session) -> list[str]:
    return list(session.scalars(select(Token.name).where(Token.revoked.is_(None))))


def _with_checksum(random: str) -> str:
    check, rest = "", zlib.crc32(random.encode())
    for _ in range(_CHECK):
        rest, digit = divmod(rest, len(_ALPHABET))
        check += _ALPHABET[digit]
    return random + check


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
