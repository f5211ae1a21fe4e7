"""Files of tokens. Ours and nanoGPT's are bare little-endian numbers; llm.c's begin with a header."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from headcount.trainer.errors import UserError, nearest

SHARD_TOKENS = 100_000_000

TOKEN_TYPES: dict[str, np.dtype[Any]] = {
    "uint8": np.dtype("u1"),
    "uint16": np.dtype("<u2"),
    "uint32": np.dtype("<u4"),
}

HEADER_BYTES = 1024
"""Of llm.c: 256 int32, of which the first three are a magic number, the version and the count of tokens."""

_LLMC = {(20240520, 1): "uint16", (20240801, 7): "uint32"}
"""Magic number and version to the type of the tokens: GPT-2's and Llama 3's."""

Tokens = npt.NDArray[Any]
"""[tokens] of one of `TOKEN_TYPES`."""


@dataclass(frozen=True)
class Shard:
    """One file of tokens."""

    file: str
    """In the data set's folder, or a whole path where it was registered in place."""
    tokens: int
    sha256: str
    """Of the tokens, a header left out."""


def token_type(vocab_size: int) -> str:
    """The narrowest type that holds every id below `vocab_size`."""
    return next(name for name, kind in TOKEN_TYPES.items() if vocab_size <= np.iinfo(kind).max + 1)


def llmc_header(path: Path) -> tuple[str, int] | None:
    """Type and count of the tokens that llm.c's header states; None for a file without such a header.

    Raises `UserError` for a version that is not known.
    """
    with open(path, "rb") as file:
        start = file.read(12)
    if len(start) < 12:
        return None
    magic, version, tokens = map(int, np.frombuffer(start, dtype="<i4"))
    if magic not in {known for known, _ in _LLMC}:
        return None
    if (magic, version) not in _LLMC:
        expected = " or ".join(str(v) for m, v in _LLMC if m == magic)
        raise UserError(f"{path} is of version {version} of llm.c's format; expected {expected}")
    return _LLMC[magic, version], tokens


def map_shard(path: Path, tokens: int, dtype: str, header: int) -> Tokens:
    """The tokens of a file, memory-mapped. Raises `UserError` for a file that is not as stated."""
    if header:
        _check_header(path, tokens, dtype)
    check_size(path, tokens, dtype, header)
    if tokens == 0:
        return np.empty(0, TOKEN_TYPES[dtype])
    mapped = np.memmap(path, dtype=TOKEN_TYPES[dtype], mode="r", offset=header, shape=(tokens,))
    return np.asarray(mapped)


def check_size(path: Path, tokens: int, dtype: str, header: int) -> None:
    """Raises `UserError` unless `path` has exactly the bytes that so many tokens take."""
    held = path.stat().st_size if path.is_file() else None
    expected = header + tokens * TOKEN_TYPES[dtype].itemsize
    if held is None:
        siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        hint = f"; {nearest(path.name, siblings)}" if siblings else ""
        raise UserError(f"{path} is missing{hint}")
    if held != expected:
        fault = "is cut short: it" if held < expected else "is too long: it"
        raise UserError(
            f"{path} {fault} has {held} bytes where {tokens} tokens of {dtype} take {expected}; "
            "prepare or copy it again"
        )


def _check_header(path: Path, tokens: int, dtype: str) -> None:
    if not path.is_file():
        return  # told by the check of its size
    stated = llmc_header(path)
    if stated != (dtype, tokens):
        found = "no llm.c header" if stated is None else f"a header of {stated[1]} tokens of {stated[0]}"
        raise UserError(
            f"{path} has {found} where {tokens} tokens of {dtype} were registered; register it again"
        )


def unknown_token(path: Path, tokens: Tokens, vocab_size: int) -> UserError:
    """The error for a shard in which some id is beyond the vocabulary."""
    position = int(np.argmax(tokens >= vocab_size))
    return UserError(
        f"{path} holds the token {int(tokens[position])} where the vocabulary has {vocab_size}; "
        "is its type of number, its vocabulary or its tokenizer another?"
    )


class ShardWriter:
    """Writes one side of a data set. Use as a context; `shards` is whole once it is left."""

    def __init__(self, folder: Path, side: str, dtype: str = "uint8", limit: int | None = None) -> None:
        """Files of `limit` tokens, or one file where there is none."""
        self._folder, self._side, self._dtype, self._limit = folder, side, dtype, limit
        self._file: BinaryIO | None = None
        self._hash = hashlib.sha256()
        self._names: list[str] = []
        self._hashes: list[str] = []
        self._sizes: list[int] = []

    @property
    def tokens(self) -> int:
        return sum(self._sizes)

    @property
    def shards(self) -> tuple[Shard, ...]:
        return tuple(map(Shard, self._names, self._sizes, self._hashes))

    def write(self, part: bytes | Tokens) -> None:
        tokens: Tokens = np.frombuffer(part, np.uint8) if isinstance(part, bytes) else part
        assert tokens.dtype == TOKEN_TYPES[self._dtype]
        while len(tokens):
            if self._file is None or self._sizes[-1] == self._limit:
                self._next()
            assert self._file is not None
            room = len(tokens) if self._limit is None else self._limit - self._sizes[-1]
            now, tokens = tokens[:room], tokens[room:]
            content = np.ascontiguousarray(now).data.cast("B")
            self._file.write(content)
            self._hash.update(content)
            self._sizes[-1] += len(now)

    def _next(self) -> None:
        self._close()
        name = f"{self._side}.bin" if self._limit is None else f"{self._side}-{len(self._names):05}.bin"
        self._file = open(self._folder / name, "wb")  # noqa: SIM115 (closed by `_close`)
        self._hash = hashlib.sha256()
        self._names.append(name)
        self._sizes.append(0)

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
            self._hashes.append(self._hash.hexdigest())

    def __enter__(self) -> "ShardWriter":
        if self._limit is None:
            self._next()
        return self

    def __exit__(self, *error: object) -> None:
        self._close()


def fingerprint_of(kind: str, train: Iterable[Shard], validation: Iterable[Shard]) -> str:
    """Of the tokens alone, and of `kind`: how they came about. Neither names nor places enter."""
    sides = "/".join(",".join(shard.sha256 for shard in side) for side in (train, validation))
    return hashlib.sha256(f"{kind}/{sides}".encode()).hexdigest()
