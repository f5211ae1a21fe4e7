"""Where Headcount keeps things, and one clear error where it cannot."""

from pathlib import Path

import pytest

from headcount.orchestrator.settings import Settings, load_settings
from headcount.trainer.errors import UserError


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (
        "HEADCOUNT_CONFIG",
        "HEADCOUNT_DATABASE_URL",
        "HEADCOUNT_DATABASE_URL_FILE",
        "HEADCOUNT_ARTIFACTS",
    ):
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
        ("HEADCOUNT_ARTIFACTS", "sfpt://host/x", r"unknown scheme 'sfpt'; did you mean 'sftp'\?"),
        ("HEADCOUNT_ARTIFACTS", "gs://bucket/x", "needs a package: pip install 'gcsfs'"),
    ],
)
def test_an_address_of_another_kind_is_refused(
    variable: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(UserError, match=message):
        load_settings()


def test_artifacts_may_lie_at_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADCOUNT_ARTIFACTS", "s3://bucket/headcount")
    settings = load_settings()
    assert settings.artifacts_url == "s3://bucket/headcount"
    assert settings.artifacts == tmp_path / "home" / "artifacts"
    monkeypatch.setenv("HEADCOUNT_ARTIFACTS", f"file://{tmp_path}/shared")
    assert load_settings().artifacts == tmp_path / "shared"
    assert load_settings().artifacts_url is None


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


def test_a_file_gives_what_the_environment_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "headcount.toml"
    file.write_text(
        f'home = "/nowhere"\nartifacts = "{tmp_path}/kept"\ndatabase_url = "postgres://host/db"\n'
    )
    monkeypatch.setenv("HEADCOUNT_CONFIG", str(file))
    assert load_settings() == Settings(tmp_path / "home", "postgresql+psycopg://host/db", tmp_path / "kept")


def test_a_secret_may_lie_in_a_file_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "url").write_text("postgresql://me:secret@host/db\n")
    monkeypatch.setenv("HEADCOUNT_DATABASE_URL_FILE", str(tmp_path / "url"))
    assert load_settings().database_url == "postgresql+psycopg://me:secret@host/db"


def test_every_mistake_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    config = tmp_path / "headcount.toml"
    config.write_text("artefacts = 'x'\nhome = 3\n")
    monkeypatch.setenv("HEADCOUNT_CONFIG", str(config))
    monkeypatch.setenv("HEADCOUNT_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("HEADCOUNT_ARTIFACTS", "gopher://x")
    monkeypatch.setenv("HEADCOUNT_DATABASE_URL", "mysql://me:secret@host/db")
    monkeypatch.setenv("HEADCOUNT_DATABASE_URL_FILE", str(tmp_path / "none"))
    with pytest.raises(UserError) as caught:
        load_settings()
    assert str(caught.value).splitlines() == [
        f"{config}: unknown setting 'artefacts'; did you mean 'artifacts'?",
        f"{config}: home should be text in quotes",
        "HEADCOUNT_DATABASE_URL and HEADCOUNT_DATABASE_URL_FILE are both set; keep one",
        f"cannot use {tmp_path}/file: not a folder; set HEADCOUNT_HOME to a folder that can be written",
        "HEADCOUNT_ARTIFACTS=gopher://x: unknown scheme 'gopher'; expected one of abfs, az, file, gs, hdfs, "
        "s3, sftp, smb",
        "HEADCOUNT_DATABASE_URL begins with 'mysql'; expected sqlite:///PATH or postgresql://USER:PASSWORD@HOST/DATABASE",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "No such file or directory"), (b"home = ", "Invalid value"), (b"\xff", "codec can't decode")],
)
def test_a_file_of_settings_that_cannot_be_read_is_named(
    content: bytes | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "headcount.toml"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv("HEADCOUNT_CONFIG", str(file))
    with pytest.raises(UserError, match=f"HEADCOUNT_CONFIG={file}: .*{message}"):
        load_settings()


def test_a_secret_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADCOUNT_DATABASE_URL_FILE", str(tmp_path / "none"))
    with pytest.raises(UserError, match=f"HEADCOUNT_DATABASE_URL_FILE={tmp_path}/none: No such file"):
        load_settings()
