"""Where Headcount keeps things, and one clear error where it cannot."""

from pathlib import Path

import pytest

from headcount.orchestrator.settings import Settings, load_settings
from headcount.trainer.errors import UserError


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HEADCOUNT_DATABASE_URL", "HEADCOUNT_ARTIFACTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HEADCOUNT_HOME", str(tmp_path / "home"))


def test_everything_lies_in_the_home_by_default(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert load_settings() == Settings(home, f"sqlite:///{home}/headcount.db", home / "artifacts")
    assert (home / "artifacts").is_dir()


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("postgresql://me@host/db", "postgresql+psycopg://me@host/db"),
        ("postgres://me@host/db", "postgresql+psycopg://me@host/db"),
        ("postgresql+psycopg://me@host/db", "postgresql+psycopg://me@host/db"),
        ("sqlite:////data/x.db", "sqlite:////data/x.db"),
    ],
)
def test_postgresql_is_reached_through_psycopg(
    given: str, used: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADCOUNT_DATABASE_URL", given)
    assert load_settings().database_url == used


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("HEADCOUNT_DATABASE_URL", "mysql://me@host/db", "expected sqlite:///PATH or postgresql://"),
        ("HEADCOUNT_DATABASE_URL", "headcount.db", "expected sqlite:///PATH or postgresql://"),
        ("HEADCOUNT_ARTIFACTS", "s3://bucket/x", "only folders are supported yet"),
    ],
)
def test_an_address_of_another_kind_is_refused(
    variable: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(UserError, match=message):
        load_settings()


def test_a_password_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADCOUNT_DATABASE_URL", "mysql://me:secret@host/db")
    with pytest.raises(UserError) as caught:
        load_settings()
    assert "secret" not in str(caught.value)


def test_a_home_that_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEADCOUNT_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(UserError, match=r"cannot use .*home: not a folder; set HEADCOUNT_HOME to a folder"):
        load_settings()
