"""Wheel and source distribution: whole, and of use in a virtual environment that has nothing else."""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import urllib.request
import zipfile
from pathlib import Path

import pytest
from clone import copy_clone
from homes import SWEEP, write_text

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(580)]

ROOT = Path(__file__).parents[2]
RECIPE = (ROOT / "docker/Dockerfile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

_WHERE = "import headcount; print(headcount.__file__)"

NOT_SHIPPED = {"api/openapi.json"}
"""Files of the package folders that are for the repository alone."""


def run(*words: object, cwd: Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={**os.environ, "PYTHONNOUSERSITE": "1", **(environment or {})},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_clone(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def built(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `python -m build` makes: the source distribution, and from it the wheel."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, source, cwd=folder)
    return folder


def shipped(source: Path) -> set[str]:
    """The files of the packages that are listed, as the wheel should hold them."""
    packages = [
        name.partition(".")[2].replace(".", "/") for name in PROJECT["tool"]["setuptools"]["packages"]
    ]
    data = PROJECT["tool"]["setuptools"]["package-data"]
    found = {name for name in ("__init__.py", "__main__.py", "py.typed") if (source / name).exists()}
    for package in filter(None, packages):
        files = {file for file in (source / package).iterdir() if file.is_file()}
        for folder in ("templates", "static", "published"):
            files |= {file for file in (source / package / folder).rglob("*") if file.is_file()}
        found |= {str(file.relative_to(source)) for file in files}
    assert data
    return {f"headcount/{name}" for name in found - NOT_SHIPPED}


def test_the_wheel_holds_every_file_of_the_packages_and_no_other(source: Path, built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        names = {name for name in content.namelist() if ".dist-info/" not in name}
    assert names == shipped(source)
    for part in ("dashboard/templates", "dashboard/static", "sweeps/quickstart.yaml", "migrations/versions"):
        assert any(part in name for name in names), part


def test_the_source_distribution_is_what_the_wheel_is_made_of(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as content:
        names = {name.partition("/")[2] for name in content.getnames()}
    assert names >= {"pyproject.toml", "README.md", "LICENSE", "PKG-INFO"}
    assert not any(name.startswith(("shared", ".venv", ".git")) for name in names)


def test_both_install_and_work_in_an_empty_environment(built: Path, tmp_path: Path) -> None:
    (wheel,), (archive,) = built.glob("*.whl"), built.glob("*.tar.gz")
    environment = {"HEADCOUNT_HOME": str(tmp_path / "home"), "RAY_USAGE_STATS_ENABLED": "0"}
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    python, headcount = tmp_path / "venv/bin/python", tmp_path / "venv/bin/headcount"
    pip = [python, "-m", "pip", "install", "-q", "--no-compile", "-c", ROOT / "constraints.txt"]
    service = re.search(r"AS service\n.*?\*\.whl\)(\[[\w,]+\])", RECIPE, re.DOTALL)
    assert service  # the step of the image
    run(*pip, f"{wheel}{service[1]}", cwd=tmp_path)
    where = run(python, "-c", _WHERE, cwd=tmp_path)
    assert where.startswith(str(tmp_path / "venv"))
    assert "the newest" in run(headcount, "db", "upgrade", cwd=tmp_path, environment=environment)
    _serves(headcount, environment, tmp_path)

    lent = {**environment, "PYTHONPATH": sysconfig.get_path("purelib")}  # PyTorch would take minutes to come
    assert run(python, "-c", _WHERE, cwd=tmp_path, environment=lent) == where
    write_text(tmp_path / "text")
    (tmp_path / "small.yaml").write_text(SWEEP.format(text=tmp_path / "text", steps=60))
    run(headcount, "run", "small.yaml", cwd=tmp_path, environment=lent)
    table = run(headcount, "table", "small", "--format", "csv", cwd=tmp_path, environment=environment)
    assert "routing_heads" in table

    run(*pip, "--no-deps", "--force-reinstall", archive, cwd=tmp_path)
    assert run(headcount, "table", "small", "--format", "csv", cwd=tmp_path, environment=environment) == table
    _serves(headcount, environment, tmp_path)


def _serves(headcount: Path, environment: dict[str, str], folder: Path) -> None:
    """Pages, what they load, and the REST API answer."""
    process = subprocess.Popen(
        [headcount, "serve", "--port", "0"],
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+/", process.stdout.readline())
        assert found
        with urllib.request.urlopen(found[0]) as answer:
            page = answer.read().decode()
        parts = re.findall(r'(?:src|href)="/(static/[^"]+)"', page)
        assert parts
        for path in ("readyz", "api/v1/sweeps", *parts):
            with urllib.request.urlopen(found[0] + path) as answer:
                assert answer.status == 200
                assert answer.read()
    finally:
        process.terminate()
        process.communicate(timeout=20)
