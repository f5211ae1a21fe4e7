"""Where Headcount keeps what it knows: the home folder, the store and the artifacts."""

import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from headcount.orchestrator.artifacts.address import address_problem
from headcount.trainer.errors import UserError, nearest

CONFIG = "HEADCOUNT_CONFIG"
"""The variable that names a TOML file of settings."""

VARIABLES = {
    "home": "HEADCOUNT_HOME",
    "database_url": "HEADCOUNT_DATABASE_URL",
    "artifacts": "HEADCOUNT_ARTIFACTS",
}
"""Each setting as the file calls it, and its variable, which goes before the file.

With `_FILE` added, a variable names a file that holds the value: that is how a container is given a secret.
"""


@dataclass(frozen=True)
class Settings:
    """The places that all commands agree on."""

    home: Path
    database_url: str
    """An SQLAlchemy URL."""
    artifacts: Path
    """Checkpoints, models, curves and logs, under keys that the store knows: on a disk that all nodes share,
    or where `artifacts_url` is given each node's own, with what runs there."""
    artifacts_url: str | None = None
    """An address that fsspec opens, which holds the artifacts and the data sets in place of a shared disk."""


def load_settings() -> Settings:
    """The settings of the environment and of the file that `HEADCOUNT_CONFIG` names, with the folders made.

    Raises one `UserError` with a line for each folder that cannot be made or written, each address that we
    cannot use and each mistake in a file. No line repeats a database's address.
    """
    reading = _Reading()
    reading.read_file()
    reading.read_environment()
    home = reading.folder("home", Path("~/.headcount"))
    artifacts_url = reading.artifacts_url()
    artifacts = reading.folder("artifacts", home / "artifacts" if home else None)
    url = reading.database_url(f"sqlite:///{home / 'headcount.db'}" if home else None)
    if home is None or artifacts is None or url is None or reading.problems:
        raise UserError("\n".join(reading.problems))
    return Settings(home, url, artifacts, artifacts_url)


@dataclass
class _Reading:
    """What is given for each setting, where, and everything that is wrong with it."""

    given: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Setting to its text and the name to call it by in a message."""
    problems: list[str] = field(default_factory=list)

    def read_file(self) -> None:
        file = os.environ.get(CONFIG)
        if not file:
            return
        try:
            content = tomllib.loads(Path(file).expanduser().read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            self.problems.append(f"{CONFIG}={file}: {reason}")
            return
        for name, value in content.items():
            if name not in VARIABLES:
                self.problems.append(f"{file}: unknown setting {name!r}; {nearest(name, VARIABLES)}")
            elif not isinstance(value, str):
                self.problems.append(f"{file}: {name} should be text in quotes")
            else:
                self.given[name] = value, f"{name} in {file}"

    def read_environment(self) -> None:
        for name, variable in VARIABLES.items():
            value, file = os.environ.get(variable), os.environ.get(f"{variable}_FILE")
            if value and file:
                self.problems.append(f"{variable} and {variable}_FILE are both set; keep one")
            if value:
                self.given[name] = value, variable
            elif file:
                try:
                    self.given[name] = Path(file).read_text(encoding="utf-8").strip(), f"{variable}_FILE"
                except (OSError, ValueError) as error:
                    reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
                    self.problems.append(f"{variable}_FILE={file}: {reason}")

    def artifacts_url(self) -> str | None:
        """The address of the artifacts, where one and not a folder is given; a problem is told."""
        text, name = self.given.get("artifacts", ("", ""))
        if "://" not in text or text.startswith("file://"):
            return None
        del self.given["artifacts"]
        if problem := address_problem(text):
            self.problems.append(f"{name}={text}: {problem}")
        return text

    def folder(self, setting: str, default: Path | None) -> Path | None:
        """The folder, made and writable; none where there is nothing to go by, or a problem."""
        text, name = self.given.get(setting, (str(default) if default else None, VARIABLES[setting]))
        if text is None:
            return None
        folder = Path(text.removeprefix("file://")).expanduser().absolute()
        reason = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not os.access(folder, os.W_OK | os.X_OK):
                reason = "it is read-only"
        except OSError as error:
            taken = isinstance(error, FileExistsError | NotADirectoryError)
            reason = "not a folder" if taken else error.strerror
        if reason:
            self.problems.append(f"cannot use {folder}: {reason}; set {name} to a folder that can be written")
            return None
        return folder

    def database_url(self, default: str | None) -> str | None:
        """The store's URL; none where there is nothing to go by, or a problem."""
        text, name = self.given.get("database_url", (default, VARIABLES["database_url"]))
        try:
            return text and with_driver(text, name)
        except UserError as error:
            self.problems.append(str(error))
            return None


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
