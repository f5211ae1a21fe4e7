"""What planning a sweep does not need: a service without torch, Ray and SQL can still read one."""

import subprocess
import sys
from pathlib import Path

import headcount.sweeps

PROGRAM = """
import importlib, pkgutil, sys
from pathlib import Path

for name in ("torch", "triton", "ray", "sqlalchemy", "alembic", "optuna", "fastapi", "plotly"):
    sys.modules[name] = None
import headcount.sweeps
for module in pkgutil.iter_modules(headcount.sweeps.__path__, "headcount.sweeps."):
    importlib.import_module(module.name)
from headcount.sweeps.planning.plan import plan
from headcount.sweeps.file.spec import load_spec
from headcount.trainer.data import Manifest

manifest = Manifest("f" * 64, "stdlib", 256, 9_000_000, 500_000, 1_000, 9_500_000)
print(len(plan(load_spec(Path(sys.argv[1])), lambda config: manifest).jobs))
"""


def test_a_sweep_is_planned_without_torch_ray_and_sql() -> None:
    quickstart = Path(headcount.sweeps.__path__[0]) / "quickstart.yaml"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(quickstart)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "20\n", "")
