"""Plans of sweeps over a text that is only a manifest."""

from collections.abc import Callable

from headcount.sweeps.file.spec import parse_spec
from headcount.sweeps.planning.plan import Plan, plan
from headcount.trainer.config import DataConfig
from headcount.trainer.data import Manifest

MANIFEST = Manifest("f" * 64, "stdlib", 256, 9_000_000, 500_000, 1_000, 9_500_000)


def planned(text: str, prepare: Callable[[DataConfig], Manifest] = lambda config: MANIFEST) -> Plan:
    return plan(parse_spec(text, "sweep.yaml"), prepare)
