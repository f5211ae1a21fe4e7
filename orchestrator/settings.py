"""Where Headcount keeps what it knows: the home folder, the store and the artifacts."""

import os
from dataclasses import dataclass
from pathlib import Path

from headcount.trainer.errors import UserError


@dataclass(frozen=True)
class Settings:
    """The places that all commands agree on, from the environment."""

    home: Path
    database_url: str
    """An SQLAlchemy URL."""
    artifacts: Path
    """Checkpoints and logs, under keys that the store knows."""


def load_settings() -> Settings:
    """`HEADCOUNT_HOME`, `HEADCOUNT_DATABASE_URL` and `HEADCOUNT_ARTIFACTS`, with the folders made.

    Raises `UserError` for a folder that cannot be made or written, and for addresses we cannot use.
    """
    home = Path(os.environ.get("HEADCOUNT_HOME") or "~/.headcount").expanduser().absolute()
    _make_folder(home, "HEADCOUNT_HOME")
    address = os.environ.get("HEADCOUNT_ARTIFACTS") or str(home / "artifacts")
    if "://" in address:
        raise UserError(f"HEADCOUNT_ARTIFACTS={address}: only folders are supported yet; give a path")
    artifacts = Path(address).expanduser().absolute()
    _make_folder(artifacts, "HEADCOUNT_ARTIFACTS")
    url = os.environ.get("HEADCOUNT_DATABASE_URL") or f"sqlite:///{home / 'headcount.db'}"
    return Settings(home, with_driver(url, "HEADCOUNT_DATABASE_URL"), artifacts)


def _make_folder(folder: Path, variable: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = "not a folder" if isinstance(error, FileExistsError | NotADirectoryError) else error.strerror
        raise UserError(
            f"cannot use {folder}: {reason}; set {variable} to a folder that can be written"
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UserError(
            f"cannot use {folder}: it is read-only; set {variable} to a folder that can be written"
        )


def with_driver(url: str, name: str) -> str:
    """PostgreSQL is reached through psycopg 3, however the URL called `name` is written."""
    scheme, separator, rest = url.partition("://")
    if scheme in ("postgres", "postgresql"):
        return f"postgresql+psycopg://{rest}"
    if not separator or scheme not in ("sqlite", "postgresql+psycopg"):
        raise UserError(
            f"{name} begins with {scheme[:20]!r}; expected sqlite:///PATH or "
            "postgresql://USER:PASSWORD@HOST/DATABASE"
        )
    return url
