"""A command typed in a fork of this process: one of its own, without the second that its imports take."""

import functools
import importlib
import os
import pkgutil
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from headcount.__main__ import COMMANDS, main
from headcount.orchestrator import exchange, following, submitting, upkeep


def typed(
    arguments: tuple[str, ...], environment: Mapping[str, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    """`headcount` with these arguments in a folder, run to its end."""
    _import_what_commands_do()
    environment = dict(environment)  # which may be this process's own
    with tempfile.TemporaryDirectory() as screen:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*fork")
            child = os.fork()
        if child == 0:
            _be_headcount(arguments, environment, folder, Path(screen))
        _, status = os.waitpid(child, 0)
        printed, said = (Path(screen, name).read_text() for name in ("out", "err"))
    return subprocess.CompletedProcess(arguments, os.waitstatus_to_exitcode(status), printed, said)


@functools.cache
def _import_what_commands_do() -> None:
    """Once, and not in each fork."""
    for room in (submitting, following, upkeep, exchange):
        for module in pkgutil.iter_modules(room.__path__, f"{room.__name__}."):
            importlib.import_module(module.name)
    for module in {COMMANDS[name] for name in ("run", "table", "doctor", "export", "probe")}:
        importlib.import_module(module)


def _be_headcount(
    arguments: tuple[str, ...], environment: Mapping[str, str], folder: Path, screen: Path
) -> NoReturn:
    code = 1
    with open(screen / "out", "w") as sys.stdout, open(screen / "err", "w") as sys.stderr:
        try:
            os.environ.clear()
            os.environ.update(environment)
            os.chdir(folder)
            sys.argv = ["headcount", *arguments]
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
