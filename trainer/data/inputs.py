"""The files a data set is made from: found, then cut into units of work of about the same size."""

import glob
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast, get_args

from headcount.trainer.data.extras import optional
from headcount.trainer.data.sources import find_local
from headcount.trainer.data.split import LARGE
from headcount.trainer.errors import UserError

UNIT_BYTES = 8 * 1024 * 1024
"""Of input, at most, about; another size may tokenise large texts differently where they are cut."""

LEAST_UNIT_BYTES = 1024 * 1024
UNITS = 32
"""Of a small input, about: enough that the processes end together."""

Format = Literal["parquet", "jsonl", "text"]

_SUFFIXES: dict[str, Format] = {".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}


@dataclass(frozen=True)
class InputFile:
    """A file by its path or URL. `stamp` changes when its content does."""

    address: str
    size: int
    stamp: str


@dataclass(frozen=True)
class Slice:
    """A part of a file: bytes of JSONL or text, row groups of parquet; [start, stop)."""

    address: str
    format: Format
    start: int
    stop: int
    weight: int
    """Bytes of input, for the progress and the size of a unit."""
    size: int
    """Of the file."""
    digest: str = ""
    """SHA-256 of the file, where it is a text of several slices."""


Unit = tuple[Slice, ...]


def find_inputs(entries: Sequence[str]) -> tuple[InputFile, ...]:
    """The files of paths, folders, globs and URLs, each once; in the order given, sorted within each.

    Raises `UserError` for an entry that stands for no file or cannot be reached.
    """
    found: dict[str, InputFile] = {}
    for entry in entries:
        files = _find_remote(_hugging_face(entry)) if _is_remote(entry) else _find_local(entry)
        found.update((file.address, file) for file in files)
    return tuple(found.values())


def cut_units(files: Sequence[InputFile], given: Format | None) -> tuple[Unit, ...]:
    """Every byte of the files in exactly one slice, slices in order, small ones together in one unit."""
    size = min(UNIT_BYTES, max(LEAST_UNIT_BYTES, sum(file.size for file in files) // UNITS))
    units: list[Unit] = []
    gathered: list[Slice] = []
    for file in files:
        for part in _slices(file, given or _format_of(file.address), size):
            if gathered and sum(s.weight for s in gathered) + part.weight > size:
                units.append(tuple(gathered))
                gathered = []
            gathered.append(part)
    return (*units, tuple(gathered)) if gathered else tuple(units)


@contextmanager
def open_input(address: str) -> Iterator[BinaryIO]:
    """A local file or URL, opened to read and seek. Raises `UserError` where that fails, also later on."""
    if not _is_remote(address):
        try:
            with open(address, "rb") as file:
                yield file
        except OSError as error:
            raise UserError(f"cannot read {address}: {error.strerror or error}") from error
        return
    with _reaching(address), optional("fsspec", f"reading {address}").open(address, "rb") as remote:
        yield cast(BinaryIO, remote)


def _is_remote(entry: str) -> bool:
    return "://" in entry or entry.startswith("hf:")


def _hugging_face(entry: str) -> str:
    """`hf:OWNER/NAME[/FOLDER]` as the address of its parquet files; any other entry as it is."""
    if not entry.startswith("hf:") or entry.startswith("hf://"):
        return entry
    name = entry.removeprefix("hf:").strip("/")
    if name.count("/") < 1:
        raise UserError(
            f"{entry}: expected hf:OWNER/NAME or hf:OWNER/NAME/FOLDER, as on the Hugging Face hub"
        )
    files = "" if glob.has_magic(name) or Path(name).suffix in _SUFFIXES else "/**/*.parquet"
    return f"hf://datasets/{name}{files}"


def _find_local(entry: str) -> Iterator[InputFile]:
    for path in find_local(entry):
        stat = path.stat()
        yield InputFile(str(path.resolve()), stat.st_size, f"{stat.st_mtime_ns} {stat.st_ctime_ns}")


def _find_remote(entry: str) -> list[InputFile]:
    fsspec = optional("fsspec", f"reading {entry}")
    with _reaching(entry):
        system, path = fsspec.core.url_to_fs(entry)
        if glob.has_magic(path):
            found = system.glob(path, detail=True)
        else:
            found = system.find(path, detail=True) or {path: system.info(path)}
        details = sorted((name, info) for name, info in found.items() if info["type"] == "file")
        if not details:
            raise UserError(f"{entry} stands for no file")
        return [
            InputFile(system.unstrip_protocol(name), _size(name, info), _stamp(info))
            for name, info in details
        ]


def _size(name: str, info: dict[str, Any]) -> int:
    if info.get("size") is None:
        raise UserError(f"{name}: its server does not tell its size; copy it here first")
    return int(info["size"])


def _stamp(info: dict[str, Any]) -> str:
    marks = ("ETag", "etag", "blob_id", "sha256", "mtime", "LastModified", "created")
    return " ".join(str(info[mark]) for mark in marks if info.get(mark) is not None)


@contextmanager
def _reaching(address: str) -> Iterator[None]:
    """Turns what goes wrong with a remote file into a `UserError`."""
    try:
        yield
    except UserError:
        raise
    except FileNotFoundError as error:
        raise UserError(f"{address} does not exist") from error
    except Exception as error:  # every file system has its own
        raise UserError(f"cannot read {address}: {type(error).__name__}: {error}") from error


def _format_of(address: str) -> Format:
    suffix = Path(address).suffix.lower()
    if suffix in (".json", ".arrow", ".gz", ".zst", ".zip", ".bin"):
        raise UserError(
            f"{address}: what {suffix} holds is not clear; say --format {' or '.join(get_args(Format))} if "
            "it is one of these, or convert it"
        )
    return _SUFFIXES.get(suffix, "text")


def _slices(file: InputFile, kind: Format, size: int) -> Iterator[Slice]:
    """`size`: of a slice of JSONL, whose lines are tokenised one by one wherever it is cut."""
    if kind == "parquet":
        yield from _row_groups(file)
        return
    if kind == "text" and file.size < max(LARGE, UNIT_BYTES):
        yield Slice(file.address, kind, 0, file.size, file.size, file.size)
        return
    digest = ""
    if kind == "text":
        size = UNIT_BYTES
        with open_input(file.address) as opened:
            digest = _sha256(opened)
    for start in range(0, file.size, size):
        stop = min(start + size, file.size)
        yield Slice(file.address, kind, start, stop, stop - start, file.size, digest)


def _sha256(file: BinaryIO) -> str:
    total = hashlib.sha256()
    while block := file.read(UNIT_BYTES):
        total.update(block)
    return total.hexdigest()


def _row_groups(file: InputFile) -> Iterator[Slice]:
    parquet = optional("pyarrow.parquet", f"reading {file.address}")
    with open_input(file.address) as opened:
        try:
            metadata = parquet.ParquetFile(opened).metadata
        except (OSError, ValueError) as error:
            raise UserError(f"{file.address} is not a whole parquet file: {str(error).strip()}") from error
        weights = [metadata.row_group(n).total_byte_size for n in range(metadata.num_row_groups)]
    for number, weight in enumerate(weights):
        yield Slice(file.address, "parquet", number, number + 1, weight, file.size)
