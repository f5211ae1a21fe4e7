"""Where text comes from: the Python library on this machine, or the user's own files."""

import glob
import os
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headcount.trainer.config import DataConfig, FieldError
from headcount.trainer.errors import UserError, nearest

SOURCES = ("stdlib", "text")

_SUFFIXES = (".md", ".py", ".pyi", ".rst", ".txt")
_SKIPPED_FOLDERS = {"__pycache__", "site-packages", "dist-packages", "test", "tests", "idle_test"}
"""Not the library itself. Its tests are over half of its bytes, and some distributions leave them out."""


@dataclass(frozen=True)
class Source:
    """Files in a fixed order. `read` gives one file's document, or raises `UserError` naming the file."""

    name: str
    files: tuple[Path, ...]
    read: Callable[[Path], bytes]


def find_source(config: DataConfig) -> Source:
    """The files that one of `SOURCES` stands for, each once. Raises `FieldError` where there are none."""
    if config.source == "text":
        return Source("text", _text_files(config.text), _read_text)
    assert config.source == "stdlib"
    folder = Path(sysconfig.get_path("stdlib"))
    files = tuple(f for f in _walk(folder, _SKIPPED_FOLDERS) if f.suffix in _SUFFIXES)
    if not files:
        raise FieldError(
            "data.source", f"no Python source in {folder}; set data.text to a text file or folder instead"
        )
    return Source("stdlib", files, _read_bytes)


def _text_files(entries: tuple[str, ...]) -> tuple[Path, ...]:
    try:
        return tuple(dict.fromkeys(path.resolve() for entry in entries for path in find_local(entry)))
    except UserError as error:
        raise FieldError("data.text", str(error)) from error


def find_local(entry: str) -> list[Path]:
    """The files of a path, a folder or a glob, sorted. Raises `UserError` where there are none."""
    path = Path(entry).expanduser()
    if path.is_file():
        return [path]
    if path.is_dir():
        found = list(_walk(path, set()))
    elif glob.has_magic(entry):
        found = [Path(p) for p in sorted(glob.glob(str(path), recursive=True)) if os.path.isfile(p)]
    else:
        raise UserError(f"{entry} does not exist{_nearest_existing(path)}")
    if not found:
        what = "a folder without files" if path.is_dir() else "a pattern that matches no file"
        raise UserError(f"{entry} is {what}; expected UTF-8 text files")
    return found


def _walk(folder: Path, skipped: set[str]) -> Iterator[Path]:
    """Regular files below `folder`, in order of their names; nothing hidden, no link followed."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in skipped:
                    yield from _walk(Path(entry.path), skipped)
            elif entry.is_file(follow_symlinks=False):
                yield Path(entry.path)


def _nearest_existing(path: Path) -> str:
    """The closest name in the deepest folder of `path` that exists."""
    while not path.parent.is_dir():
        path = path.parent
    siblings = [p.name for p in path.parent.iterdir()]
    hint = nearest(path.name, siblings) if siblings else ""
    return f"; {hint}" if hint.startswith("did you mean") else f" (looked in {path.parent})"


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns a failure to read `path` into a `UserError` that names it."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


def _read_bytes(path: Path) -> bytes:
    with reading(path):
        return path.read_bytes()


def _read_text(path: Path) -> bytes:
    document = _read_bytes(path)
    try:
        document.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FieldError(
            "data.text",
            f"{path} is not UTF-8 (byte {error.start} is 0x{document[error.start]:02x}); "
            "convert it, or leave it out with a pattern such as FOLDER/**/*.txt",
        ) from error
    if 0 in document:
        raise FieldError("data.text", f"{path} is not text: byte {document.index(0)} is NUL")
    return document
