"""The service as a process of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path


def serve(home: Path, *options: str) -> "tuple[subprocess.Popen[str], str]":
    """`headcount serve` on a free port, and where it is."""
    process = subprocess.Popen(
        [sys.executable, "-m", "headcount", "serve", "--port", "0", *options],
        env=os.environ | {"HEADCOUNT_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    found = re.search(r"http://\S+/", process.stdout.readline())
    assert found
    return process, found[0]
