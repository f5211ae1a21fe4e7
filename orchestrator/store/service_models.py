"""The tables of the service: who may use it, and what was answered."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from headcount.orchestrator.store.columns import Base


class Token(Base):
    """A credential of the service; only its hash is kept."""

    __tablename__ = "token"

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    """Of whom; also the owner of the sweeps that are submitted with it."""
    start: Mapped[str] = mapped_column(String(16), server_default="")
    """The first characters, by which its holder can recognise it."""
    sha256: Mapped[str] = mapped_column(String(64), unique=True)
    scopes: Mapped[list[Any]]
    created: Mapped[datetime]
    expires: Mapped[datetime | None]
    revoked: Mapped[datetime | None]
    last_used: Mapped[datetime | None]
    """To the hour."""


class Login(Base):
    """A browser that showed a token; only the hash of its cookie is kept."""

    __tablename__ = "login"

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    token_id: Mapped[int] = mapped_column(ForeignKey("token.id"))
    expires: Mapped[datetime]


class Answer(Base):
    """What a request with an idempotency key was answered, for when it is sent again."""

    __tablename__ = "answer"

    caller: Mapped[str] = mapped_column(String(200), primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    question: Mapped[str] = mapped_column(String(64))
    """SHA-256 of the request."""
    content: Mapped[str | None] = mapped_column(Text)
    """NULL while it is worked on."""
    created: Mapped[datetime]
