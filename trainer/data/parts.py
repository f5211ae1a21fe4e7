"""The tokens of one unit of input, which wait on disk until the data set is whole."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headcount.trainer.data.documents import Document, documents
from headcount.trainer.data.files import sync
from headcount.trainer.data.inputs import Unit
from headcount.trainer.data.shards import TOKEN_TYPES, Tokens, token_type
from headcount.trainer.data.split import train_part
from headcount.trainer.data.tokenizer import Tokenizer
from headcount.trainer.errors import UserError

PIECE_BYTES = 1024 * 1024
"""Longer text is tokenised in pieces, so that no tokenizer sees more at once."""

RECORD = np.dtype(
    [
        *(("digest", "<u8", (2,)), ("offset", "<i8")),
        *(("train", "<i8"), ("validation", "<i8"), ("train_bytes", "<i8"), ("validation_bytes", "<i8")),
    ]
)
"""A document: half of its SHA-256, where its piece begins, and its tokens and bytes on either side."""

Records = npt.NDArray[np.void]

SIDES = ("train", "validation")


class Part(NamedTuple):
    """What a unit became."""

    records: Records
    train: Tokens
    validation: Tokens


def write_part(
    unit: Unit, number: int, folder: Path, tokenizer: Tokenizer, column: str, cut_all: bool
) -> int:
    """Tokenise a unit into `folder`, whole or not at all. Returns how many tokens there are."""
    if (records := _records(folder, number, tokenizer.vocab_size)) is None:
        beside = [folder / f".{number}.{side}.{os.getpid()}" for side in (*SIDES, "records")]
        with open(beside[0], "wb") as train, open(beside[1], "wb") as validation:
            written = []
            for document in (d for part in unit for d in documents(part, column)):
                sides = _tokenise(document, tokenizer, cut_all)
                for file, tokens in zip((train, validation), sides.tokens, strict=True):
                    file.write(tokens.tobytes())
                written.append(sides.record)
        records = np.array(written, dtype=RECORD)
        with open(beside[2], "wb") as file:
            np.save(file, records)
        sync(*beside)
        # the records last: they are what says that the part is whole
        for path, name in zip(beside, (*SIDES, "records"), strict=True):
            path.replace(_path(folder, number, name))
    return int(records["train"].sum() + records["validation"].sum())


def read_records(folder: Path, number: int, vocab_size: int) -> Records:
    """The documents of a part that is whole."""
    records = _records(folder, number, vocab_size)
    assert records is not None
    return records


def read_part(folder: Path, number: int, vocab_size: int) -> Part:
    """A part that is whole, with its tokens."""
    records = read_records(folder, number, vocab_size)
    kind = TOKEN_TYPES[token_type(vocab_size)]
    return Part(records, *(np.fromfile(_path(folder, number, side), dtype=kind) for side in SIDES))


def _records(folder: Path, number: int, vocab_size: int) -> Records | None:
    """The documents of a part; None where it is missing or not whole."""
    width = TOKEN_TYPES[token_type(vocab_size)].itemsize
    try:
        records: Records = np.load(_path(folder, number, "records"))
        sizes = [_path(folder, number, side).stat().st_size for side in SIDES]
    except (OSError, ValueError, EOFError):
        return None
    whole = records.dtype == RECORD and sizes == [int(records[side].sum()) * width for side in SIDES]
    return records if whole else None


def _path(folder: Path, number: int, name: str) -> Path:
    return folder / f"{number:06}.{name}"


class _Tokenised(NamedTuple):
    tokens: tuple[Tokens, Tokens]
    record: tuple[object, ...]


def _tokenise(document: Document, tokenizer: Tokenizer, cut_all: bool) -> _Tokenised:
    """A document's tokens on either side, a separator after the end of each."""
    content, begin = document.content, document.offset
    cut = train_part(document.size, document.digest, cut_all)
    at = min(max(cut - begin, 0), len(content))
    if tokenizer.name != "bytes":
        while 0 < at < len(content) and content[at] & 0xC0 == 0x80:
            at -= 1
    ends = (begin + at >= cut or at < len(content), begin + len(content) == document.size)
    try:
        tokens = [
            _with_separator(_encode(text, tokenizer), ended, tokenizer)
            for text, ended in zip((content[:at], content[at:]), ends, strict=True)
        ]
    except UserError as error:
        raise UserError(f"{document.where}: {error}") from error
    digest = np.frombuffer(document.digest[:16], "<u8")
    sizes = (len(tokens[0]), len(tokens[1]), at, len(content) - at)
    return _Tokenised((tokens[0], tokens[1]), (digest, begin, *sizes))


def _encode(text: bytes, tokenizer: Tokenizer) -> Tokens:
    parts = [tokenizer.encode(piece) for piece in _pieces(text)]
    return np.concatenate(parts) if parts else np.empty(0, TOKEN_TYPES[token_type(tokenizer.vocab_size)])


def _pieces(text: bytes) -> Iterator[bytes]:
    """Text in pieces that begin and end between characters."""
    start = 0
    while start < len(text):
        stop = min(start + PIECE_BYTES, len(text))
        while stop < len(text) and text[stop] & 0xC0 == 0x80:
            stop -= 1
        yield text[start:stop]
        start = stop


def _with_separator(tokens: Tokens, ended: bool, tokenizer: Tokenizer) -> Tokens:
    return np.append(tokens, tokens.dtype.type(tokenizer.separator)) if ended and len(tokens) else tokens
