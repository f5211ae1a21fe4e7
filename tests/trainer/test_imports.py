"""What must import where: training on a box with torch alone, planning on one without it."""

import subprocess
import sys

import pytest

SERVICES = ["ray", "sqlalchemy", "alembic", "fastapi", "plotly", "pydantic", "click", "yaml", "rich", "scipy"]
DATA = ["pyarrow", "tokenizers", "tiktoken", "fsspec"]
TORCH_FREE = [
    "config",
    "data",
    "data.building",
    "data.registration",
    "errors",
    "events",
    "execution",
    "flops",
    "residuals.registry",
    "rules",
    "scales",
    "schedule",
    "tail",
]

BLOCK = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ImportError(name + " is not on this machine")
sys.meta_path.insert(0, Blocked())
import importlib
for name in {names!r}:
    importlib.import_module(name)
"""


def imports(names: list[str], blocked: list[str]) -> None:
    code = BLOCK.format(blocked=set(blocked), names=names)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_training_needs_torch_and_numpy_alone() -> None:
    streams = ["headcount.trainer.residuals.additive", "headcount.trainer.residuals.mhar"]
    commands = [f"headcount.trainer.{name}" for name in ("single_job", "convert.command", "probe.command")]
    imports(["headcount.kernels", "headcount.trainer.loop", *commands, *streams], SERVICES)


def test_planning_needs_no_torch() -> None:
    names = [f"headcount.trainer.{name}" for name in TORCH_FREE]
    imports(["headcount.trainer", *names], [*SERVICES, *DATA, "torch", "triton"])


def test_the_block_blocks() -> None:
    with pytest.raises(AssertionError, match="torch is not on this machine"):
        imports(["headcount.trainer.loop"], ["torch"])
