"""The page on a whole cluster on one machine: its commands are typed, and give a table."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from cluster.hosts import ROOT
from homes import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(580)]

PAGE = (ROOT / "docs/howto/one_machine.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^<!-- (cluster[\w-]*): (.+?) -->\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@contextmanager
def kept(output: Path) -> Iterator[IO[str]]:
    """`make cluster`, without its install; what is written to it is typed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    with output.open("w") as shown:
        process = subprocess.Popen(
            [sys.executable, "-m", "cluster.keep"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=shown,
            stderr=shown,
            text=True,
        )
    try:
        assert process.stdin is not None
        yield process.stdin
        assert process.wait(30) == 0, output.read_text()
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def test_the_page_brings_a_cluster_up_and_gives_a_table(tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parents[1])
    with kept(shown) as typed:
        variables = wait_for(lambda: re.search(r"^export (.+)$", shown.read_text(), re.MULTILINE), 300)
        environment = {**os.environ, **dict(word.split("=") for word in variables[1].split())}
        assert re.search(r"^worker-2 +10\.\S+ +worker-cpu +up$", shown.read_text(), re.MULTILINE)
        ran = 0
        for kind, words, block in BLOCK.findall(PAGE):
            if kind == "cluster-file":
                (tmp_path / words).write_text(block)
                continue
            done = subprocess.run(
                ["sh", "-ec", block],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=400,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            assert words in done.stdout
            ran += 1
        assert ran == 1
        for line, answer in {
            "on scheduler headcount status": r"study +6 +6 finished",
            "kill worker-1": "",
            "hosts": r"worker-1 +\S+ +worker-cpu +down",
            "on nowhere ls": "no host 'nowhere'",
            "help": "take its power",
        }.items():
            before = len(shown.read_text())
            typed.write(f"{line}\n")
            typed.flush()
            wait_for(lambda b=before: "cluster> " in shown.read_text()[b:], 60)
            assert re.search(answer, shown.read_text()[before:]), (line, shown.read_text()[before:])
        typed.write("quit\n")
        typed.flush()
