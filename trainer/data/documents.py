"""The documents in a slice of an input file."""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from headcount.trainer.data.extras import optional
from headcount.trainer.data.inputs import Format, Slice, open_input
from headcount.trainer.errors import UserError, nearest


@dataclass(frozen=True)
class Document:
    """A document, or a piece of one that is a large file."""

    content: bytes
    """UTF-8; a piece begins and ends between characters."""
    where: str
    digest: bytes
    """SHA-256 of the whole document."""
    size: int
    """Of the whole document, in bytes."""
    offset: int = 0
    """Where this piece begins in it."""


def documents(part: Slice, column: str) -> Iterator[Document]:
    """The documents of `part` in order, empty ones left out. `column`: which field of a row is the text.

    Raises `UserError` naming file and place for what is not UTF-8 text.
    """
    return _READERS[part.format](part, column)


def _whole(content: bytes, where: str) -> Iterator[Document]:
    if content:
        yield Document(content, where, hashlib.sha256(content).digest(), len(content))


def _text(part: Slice, column: str) -> Iterator[Document]:
    with open_input(part.address) as file:
        if not part.digest:
            content = file.read()
            _check_utf8(content, 0, part.address)
            yield from _whole(content, part.address)
            return
        start, stop = (_character_start(file, at, part.size) for at in (part.start, part.stop))
        file.seek(start)
        content = file.read(stop - start)
    _check_utf8(content, start, part.address)
    if content:
        yield Document(content, part.address, bytes.fromhex(part.digest), part.size, start)


def _character_start(file: BinaryIO, at: int, size: int) -> int:
    """The first byte from `at` on that begins a character."""
    if at in (0, size):
        return at
    file.seek(at)
    following = file.read(4)
    return at + next((n for n, byte in enumerate(following) if byte & 0xC0 != 0x80), 0)


def _check_utf8(content: bytes, start: int, where: str) -> None:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{where} is not UTF-8 text: byte {start + error.start} is 0x{content[error.start]:02x}; convert "
            "it, or leave it out with a pattern such as FOLDER/**/*.txt"
        ) from error


def _jsonl(part: Slice, column: str) -> Iterator[Document]:
    """The lines that begin in the slice: one that reaches beyond its end is read whole."""
    with open_input(part.address) as file:
        position = part.start
        if position:
            file.seek(position - 1)
            position += len(file.readline()) - 1
        while position < part.stop and (line := file.readline()):
            where = f"{part.address}, the line at byte {position}"
            position += len(line)
            if line.strip():
                yield from _whole(_json_text(line, column, where), where)


def _json_text(line: bytes, column: str, where: str) -> bytes:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise UserError(f"{where}: not JSON ({error}); is the file JSONL, one object a line?") from error
    if not isinstance(row, dict):
        raise UserError(f'{where}: expected an object such as {{"{column}": "…"}}')
    if column not in row:
        raise UserError(f"{where}: no field {column!r}; {_other_column(column, list(row))}")
    text = row[column]
    if text is None:
        return b""
    if not isinstance(text, str):
        raise UserError(f"{where}: the field {column!r} is not text; {_other_column(column, list(row))}")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UserError(f"{where}: the text has half a surrogate pair at character {error.start}") from error


def _parquet(part: Slice, column: str) -> Iterator[Document]:
    pyarrow = optional("pyarrow", f"reading {part.address}")
    parquet = optional("pyarrow.parquet", f"reading {part.address}")
    with open_input(part.address) as opened:
        file = parquet.ParquetFile(opened)
        kinds = {field.name: field.type for field in file.schema_arrow}
        if column not in kinds:
            raise UserError(f"{part.address}: no column {column!r}; {_other_column(column, list(kinds))}")
        if not _is_text(pyarrow, kinds[column]):
            raise UserError(
                f"{part.address}: the column {column!r} is of {kinds[column]}, not text; "
                + _other_column(column, [name for name, kind in kinds.items() if _is_text(pyarrow, kind)])
            )
        groups, number = list(range(part.start, part.stop)), 0
        for batch in file.iter_batches(batch_size=1024, row_groups=groups, columns=[column]):
            for content in batch.column(0).cast(pyarrow.large_binary()).to_pylist():
                where = f"{part.address}, row {number} of row group {part.start}"
                number += 1
                if content:
                    _check_utf8(content, 0, where)
                    yield from _whole(content, where)


def _is_text(pyarrow: Any, kind: Any) -> bool:
    types = pyarrow.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _other_column(column: str, columns: list[str]) -> str:
    return f"--column: {nearest(column, columns)}" if columns else "there are no others"


_READERS: dict[Format, Callable[[Slice, str], Iterator[Document]]] = {
    "text": _text,
    "jsonl": _jsonl,
    "parquet": _parquet,
}
