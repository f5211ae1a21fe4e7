"""Files under keys, at an address that fsspec opens, such as `s3://bucket/headcount`."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from headcount.trainer.errors import UserError, nearest

COMMON = ("abfs", "az", "file", "gs", "hdfs", "s3", "sftp", "smb")
"""Schemes that an error names; fsspec knows more."""

EXTRAS = {"s3": "headcount[s3]"}
"""What is to be installed for a scheme, where it is not what fsspec itself says."""


class ArtifactsUnavailable(UserError):
    """The address does not answer as it should now; the same call may succeed later."""


def address_problem(url: str) -> str | None:
    """Why artifacts cannot be kept at `url`; none where they may. Nothing is asked over the network."""
    scheme = url.partition("://")[0]
    if find_spec("fsspec") is None:
        return f"needs a package: pip install '{EXTRAS.get(scheme, 'headcount[data]')}'"
    from fsspec.registry import known_implementations

    if scheme not in known_implementations:
        return f"unknown scheme {scheme!r}; {nearest(scheme, COMMON)}"
    module = known_implementations[scheme]["class"].partition(".")[0]
    if find_spec(module) is None:
        missing = EXTRAS.get(scheme) or module
        return f"needs a package: pip install '{missing}'"
    return None


class Artifacts:
    """Files at one address. Every method raises `ArtifactsUnavailable` where the address fails.

    An upload that is cut off may leave part of a file in stores that write in place: whoever writes several
    files says last, in a file of its own, that the others are whole.
    """

    def __init__(self, url: str) -> None:
        from fsspec.core import url_to_fs

        self.url = url.rstrip("/")
        with self._failures():
            fs, root = url_to_fs(self.url, use_listings_cache=False)
        self._fs: Any = fs
        self._root = root.rstrip("/")

    def check(self) -> None:
        """Whether the bucket, or the top folder, is there and answers: it is never made."""
        with self._failures():
            top = self._root.partition("/")[0] or self._root
            try:
                self._fs.info(top)
            except FileNotFoundError as error:
                raise ArtifactsUnavailable(f"cannot use the artifacts at {self.url}: no {top}") from error

    def read(self, key: str) -> bytes | None:
        """The content of a file; none where there is none."""
        with self._failures():
            try:
                content: bytes = self._fs.cat_file(self._path(key))
            except FileNotFoundError:
                return None
        return content

    def write(self, key: str, content: bytes) -> None:
        self._put(key, lambda path: self._fs.pipe_file(path, content))

    def upload(self, file: Path, key: str) -> None:
        self._put(key, lambda path: self._fs.put_file(str(file), path))

    def download(self, key: str, file: Path) -> None:
        """Write `file`, which appears when it is whole."""
        file.parent.mkdir(parents=True, exist_ok=True)
        beside = file.with_name(f".{file.name}.{os.getpid()}")
        try:
            with self._failures():
                try:
                    self._fs.get_file(self._path(key), str(beside))
                except FileNotFoundError as error:
                    raise ArtifactsUnavailable(f"{self.url}/{key} is gone") from error
            beside.replace(file)
        finally:
            beside.unlink(missing_ok=True)

    def files(self, prefix: str) -> dict[str, int]:
        """The keys of the files beneath `prefix`, or of the file of that name, with their bytes."""
        with self._failures():
            try:
                found = self._fs.find(self._path(prefix), detail=True)
            except FileNotFoundError:
                return {}
        start = len(self._root) + 1
        return {path[start:]: int(entry["size"] or 0) for path, entry in found.items()}

    def changed(self, key: str) -> datetime | None:
        """When a file was put there; none where it is gone."""
        with self._failures():
            try:
                moment: datetime = self._fs.modified(self._path(key))
            except FileNotFoundError:
                return None
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

    def delete(self, keys: Iterable[str]) -> None:
        """Files that are gone already are passed over."""
        for key in keys:
            with self._failures(), suppress(FileNotFoundError):
                self._fs.rm_file(self._path(key))

    def _put(self, key: str, put: Any) -> None:
        path = self._path(key)
        with self._failures():
            try:
                put(path)
            except FileNotFoundError:  # stores with real folders want them made
                self.check()
                self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
                put(path)

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}"

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Each kind of store raises what it likes."""
        try:
            yield
        except (FileNotFoundError, ArtifactsUnavailable):
            raise
        except Exception as error:
            reason = str(error).strip() or type(error).__name__
            raise ArtifactsUnavailable(
                f"cannot use the artifacts at {self.url}: {reason.splitlines()[0]}"
            ) from error
