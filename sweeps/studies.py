"""The ready-made studies: sweep files that come with the package."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headcount.sweeps.file.spec import load_spec
from headcount.sweeps.forecasting.forecast import forecast
from headcount.sweeps.forecasting.speed import History
from headcount.sweeps.planning.plan import Plan, plan
from headcount.trainer.config import BYTE_VOCABULARY, DataConfig
from headcount.trainer.data import Manifest
from headcount.trainer.data.english_docs import NAME as ENGLISH_DOCS
from headcount.trainer.data.english_docs import VOCABULARY
from headcount.trainer.errors import UserError, nearest

_FOLDER = Path(__file__).parent

_VOCABULARY = {f"{ENGLISH_DOCS}-24m": VOCABULARY}
"""Of the texts that studies name other than as bytes."""


@dataclass(frozen=True)
class Cost:
    """Of all jobs that a study may have."""

    jobs: int
    gpu_hours: float
    """By a forecast without measured jobs."""


@dataclass(frozen=True)
class Study:
    name: str
    """The sweep's; its file has underscores for the dashes."""
    description: str
    path: Path
    has_small: bool
    """Whether its file has a small variant."""

    def plan(self, small: bool = False) -> Plan:
        """Its plan over a nominal text, so that none is read; job ids are not those of any real text."""
        return plan(load_spec(self.path, small), _nominal)

    def cost(self, small: bool = False) -> Cost:
        found = forecast(self.plan(small), History(device="cuda", slots=1)).time
        assert found is not None
        return Cost(found.jobs, found.slot_hours.typical)


def studies() -> Iterator[Study]:
    """By name."""
    for path in study_files().values():
        spec = load_spec(path)
        yield Study(spec.name, spec.description, path, "small" in spec.lines)


def study_files() -> dict[str, Path]:
    """The file of each study by its name, without reading any."""
    return {path.stem.replace("_", "-"): path for path in sorted(_FOLDER.glob("*.yaml"))}


def study_text(name: str, small: bool = False) -> str:
    """The file of the study called `name`, or of its small variant. Raises `UserError` with the nearest."""
    found = study_files()
    if name not in found:
        raise UserError(f"no study {name!r}; {nearest(name, found)}")
    return load_spec(found[name], small).text


def _nominal(data: DataConfig) -> Manifest:
    """A text that lasts for every job: what a study costs does not depend on which one it is."""
    vocabulary = _VOCABULARY.get(data.source, BYTE_VOCABULARY)
    return Manifest("0" * 64, data.source, vocabulary, 10**12, 10**9, None, None)
