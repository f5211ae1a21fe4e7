"""What a node of a Ray cluster has: told by a task that runs there, so it must work with what it finds."""

import os
import platform
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGES = ("headcount", "torch", "triton", "ray", "numpy")


@dataclass(frozen=True)
class NodeReport:
    """One machine, as it sees itself."""

    host: str
    python: str
    versions: dict[str, str | None]
    """Of `PACKAGES`; none for one that is not there."""
    numerics: int
    cards: tuple[dict[str, Any], ...]
    """Name, and bytes of memory in all and free, of each GPU that PyTorch can use."""
    torch_problem: str | None
    free: dict[str, int | None]
    """Bytes free on the disk of each folder; none where it cannot be written."""
    sees_probe: bool
    """Whether a file that was just written to the artifacts is there."""
    datasets: tuple[str, ...]
    """Fingerprints of those asked for that are there."""


def report(
    home: str, artifacts: str, url: str | None, probe: str, fingerprints: tuple[str, ...] = ()
) -> NodeReport:
    """Look at this machine. `url`: the artifacts' address, where they do not lie in a folder."""
    from headcount.trainer.config import NUMERICS
    from headcount.trainer.data.manifest import dataset_folder

    cards, problem = _cards()
    return NodeReport(
        host=socket.gethostname(),
        python=platform.python_version(),
        versions={name: _version(name) for name in PACKAGES},
        numerics=NUMERICS,
        cards=cards,
        torch_problem=problem,
        free={"home": _free(Path(home)), "artifacts": _free(Path(artifacts))},
        sees_probe=_sees(probe, artifacts, url),
        datasets=tuple(f for f in fingerprints if (dataset_folder(f, Path(home)) / "manifest.json").exists()),
    )


def _sees(probe: str, artifacts: str, url: str | None) -> bool:
    from headcount.orchestrator.artifacts.address import Artifacts, ArtifactsUnavailable

    if url is None:
        return (Path(artifacts) / probe).exists()
    try:
        return Artifacts(url).read(probe) is not None
    except ArtifactsUnavailable:
        return False


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cards() -> tuple[tuple[dict[str, Any], ...], str | None]:
    try:
        import torch

        cards = []
        for index in range(torch.cuda.device_count()):
            free, total = torch.cuda.mem_get_info(index)
            cards.append({"name": torch.cuda.get_device_name(index), "free": free, "total": total})
    except Exception as error:  # a broken driver or build raises what it likes
        return (), f"{type(error).__name__}: {error}".splitlines()[0]
    return tuple(cards), None


def _free(folder: Path) -> int | None:
    place = folder
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free if os.access(place, os.W_OK | os.X_OK) else None
