"""The frame: commands, packages and pins agree with the folders."""

import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from headcount.__main__ import COMMANDS, cli

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ROOMS = ("kernels", "trainer", "sweeps", "orchestrator", "api", "dashboard")


def headcount(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headcount", *arguments], capture_output=True, text=True, timeout=60, cwd="/"
    )


def test_every_package_folder_is_listed_and_nothing_else():
    folders = {
        ".".join(("headcount", *init.parent.relative_to(ROOT).parts))
        for room in ROOMS
        for init in (ROOT / room).rglob("__init__.py")
    }
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == {"headcount"} | folders


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_exists_and_explains_itself(name):
    command = getattr(importlib.import_module(COMMANDS[name]), name)
    assert command.name == name
    assert command.help
    assert all(option.help for option in command.params if isinstance(option, click.Option))


def test_help_lists_every_command():
    done = headcount("--help")
    assert done.returncode == 0
    assert set(COMMANDS) == set(cli.list_commands(None))
    told = done.stdout.partition("Train a sweep:")[2]
    assert sorted(re.findall(r"^  ([a-z]+) ", told, re.MULTILINE)) == sorted(COMMANDS)
    assert "..." not in told  # each is told in whole sentences


def test_an_unknown_command_names_the_nearest():
    done = headcount("stauts")
    assert done.returncode == 2
    assert "did you mean 'status'?" in done.stderr
    assert "Traceback" not in done.stderr


def test_every_direct_dependency_is_pinned():
    pinned = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    declared = PROJECT["project"]["dependencies"] + [
        requirement for extra in PROJECT["project"]["optional-dependencies"].values() for requirement in extra
    ]
    names = {r.split(";")[0].split(">")[0].split("[")[0].strip().lower() for r in declared} - {"headcount"}
    assert names <= pinned
