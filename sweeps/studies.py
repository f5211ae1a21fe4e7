"""The ready-made studies: sweep files that come with the package."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headcount.sweeps.file.spec import load_spec
from headcount.trainer.errors import UserError, nearest

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Study:
    name: str
    """The sweep's; its file has underscores for the dashes."""
    description: str
    path: Path


def studies() -> Iterator[Study]:
    """By name."""
    for path in sorted(_FOLDER.glob("*.yaml")):
        spec = load_spec(path)
        yield Study(spec.name, spec.description, path)


def study_text(name: str) -> str:
    """The file of the study called `name`. Raises `UserError` with the nearest."""
    found = {study.name: study.path for study in studies()}
    if name not in found:
        raise UserError(f"no study {name!r}; {nearest(name, found)}")
    return found[name].read_text(encoding="utf-8")
