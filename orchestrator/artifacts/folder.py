"""Artifacts in a folder that all nodes share, read and deleted as those at an address are."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from headcount.orchestrator.artifacts.address import Artifacts
from headcount.orchestrator.settings import Settings
from headcount.trainer.errors import UserError
from headcount.trainer.job_files.files import whole_file


class FolderArtifacts:
    """Files under keys in one folder. Every method raises `UserError` for what the disk refuses."""

    def __init__(self, folder: Path) -> None:
        self.url = str(folder)
        self._folder = folder

    def read(self, key: str) -> bytes | None:
        """The content of a file; none where there is none."""
        try:
            return (self._folder / key).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UserError(f"cannot read {self._folder / key}: {error.strerror}") from error

    def write(self, key: str, content: bytes) -> None:
        """A file that appears when it is whole."""
        file = self._folder / key
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(file) as written:
                written.write(content)
        except OSError as error:
            raise UserError(f"cannot write {file}: {error.strerror}") from error

    def files(self, prefix: str) -> dict[str, int]:
        """The keys of the files beneath `prefix`, with their bytes."""
        found = {}
        for file in (self._folder / prefix).rglob("*"):
            with suppress(FileNotFoundError):  # a job that runs has just dropped it
                if file.is_file():
                    found[str(file.relative_to(self._folder))] = file.stat().st_size
        return found

    def changed(self, key: str) -> datetime | None:
        """When a file was put there, as a link too; none where it is gone."""
        try:
            return datetime.fromtimestamp((self._folder / key).stat().st_ctime, UTC)
        except FileNotFoundError:
            return None

    def delete(self, keys: Iterable[str]) -> None:
        """Files that are gone already are passed over; a folder goes with its last file."""
        for key in keys:
            file = self._folder / key
            try:
                file.unlink(missing_ok=True)
            except OSError as error:
                raise UserError(f"cannot delete {file}: {error.strerror}") from error
            with suppress(OSError):
                while file.parent not in (self._folder, file):
                    file = file.parent
                    file.rmdir()


AnyArtifacts = Artifacts | FolderArtifacts


def open_artifacts(settings: Settings) -> AnyArtifacts:
    """The artifacts, wherever the settings keep them."""
    if settings.artifacts_url is not None:
        return Artifacts(settings.artifacts_url)
    return FolderArtifacts(settings.artifacts)
