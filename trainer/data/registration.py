"""Tokens that are there already, registered where they lie: llm.c's shards, nanoGPT's, and our own."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from headcount.trainer.data.files import writing
from headcount.trainer.data.manifest import MANIFEST_FILE, Manifest
from headcount.trainer.data.names import check_new_name, set_name
from headcount.trainer.data.placing import place, scratch_folder
from headcount.trainer.data.shards import (
    HEADER_BYTES,
    TOKEN_TYPES,
    Shard,
    fingerprint_of,
    llmc_header,
    map_shard,
)
from headcount.trainer.data.sources import find_local
from headcount.trainer.data.tokenizer import Tokenizer, load_tokenizer
from headcount.trainer.data.verification import Advance, Scan, looks_wider, scan, verify
from headcount.trainer.errors import UserError

_KIND = "headcount registered 1"


class _Vocabulary(NamedTuple):
    name: str
    size: int
    separator: int | None


_LLMC = {"uint16": _Vocabulary("gpt2", 50_257, 50_256), "uint32": _Vocabulary("llama3", 128_256, 128_000)}
"""What llm.c's shards of either type hold, and which token parts documents there."""


@dataclass(frozen=True)
class Stated:
    """What bare files do not tell of themselves."""

    vocab_size: int | None = None
    dtype: str | None = None
    tokenizer: str | None = None
    """As `load_tokenizer` takes it."""
    validation: tuple[str, ...] = ()
    """Paths and globs of the validation side; else the files with `val` in their names."""


def register(
    name: str,
    entries: Sequence[str],
    home: Path,
    stated: Stated = Stated(),
    *,
    replacing: bool = False,
    advance: Advance = lambda tokens: None,
) -> Manifest:
    """Let `name` stand for tokens that stay where they are. Every file is read through once.

    Raises `UserError` naming the file that is cut short, of another type than stated, or that holds an id
    beyond the vocabulary.
    """
    manifest = _ours(entries, advance) or _foreign(name, entries, stated, advance)
    content = f"registered {manifest.fingerprint}"
    check_new_name(name, content, home, replacing)
    with writing(home), scratch_folder(home) as scratch:
        place(scratch, manifest, home)
        set_name(name, manifest.fingerprint, content, home)
    return replace(manifest, name=name)


def _ours(entries: Sequence[str], advance: Advance) -> Manifest | None:
    """A folder that holds a data set of Headcount's."""
    folder = Path(entries[0]).expanduser().resolve()
    if len(entries) > 1 or not (folder / MANIFEST_FILE).is_file():
        return None
    try:
        manifest = Manifest.from_json((folder / MANIFEST_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{folder / MANIFEST_FILE} is not the manifest of a data set: {error}") from error
    verify(manifest, folder, advance)
    return replace(
        manifest,
        train=tuple(replace(shard, file=str(folder / shard.file)) for shard in manifest.train),
        validation=tuple(replace(shard, file=str(folder / shard.file)) for shard in manifest.validation),
    )


@dataclass(frozen=True)
class _File:
    path: Path
    is_validation: bool
    dtype: str
    header: int
    tokens: int


def _foreign(name: str, entries: Sequence[str], stated: Stated, advance: Advance) -> Manifest:
    files = [_described(path, side, stated) for path, side in _sides(entries, stated.validation).items()]
    first = files[0]
    for file in files:
        if (file.dtype, file.header) != (first.dtype, first.header):
            raise UserError(
                f"{file.path} holds {_form(file)}, and {first.path} {_form(first)}; register one form only"
            )
    tokenizer = load_tokenizer(stated.tokenizer) if stated.tokenizer else None
    vocabulary = _vocabulary(first, stated, tokenizer)
    lengths = tokenizer.byte_lengths() if tokenizer else None
    scans: list[Scan] = []
    for file in files:
        tokens = map_shard(file.path, file.tokens, file.dtype, file.header)
        if not file.header and looks_wider(tokens):
            raise UserError(f"{file.path} looks like tokens of uint32, not of uint16; say --dtype uint32")
        scans.append(scan(file.path, tokens, vocabulary.size, advance, vocabulary.separator, lengths))
    sides = {
        side: tuple(
            Shard(str(file.path), file.tokens, found.sha256)
            for file, found in zip(files, scans, strict=True)
            if file.is_validation == side
        )
        for side in (False, True)
    }
    validation = [s for file, s in zip(files, scans, strict=True) if file.is_validation]
    kind = f"{_KIND}/{vocabulary.name}/{vocabulary.size}/{first.dtype}"
    return Manifest(
        fingerprint=fingerprint_of(kind, sides[False], sides[True]),
        name=name,
        vocab_size=vocabulary.size,
        train_tokens=sum(shard.tokens for shard in sides[False]),
        validation_tokens=sum(shard.tokens for shard in sides[True]),
        documents=_sum([found.separators for found in scans]),
        bytes=_sum([found.bytes for found in scans]),
        validation_bytes=_sum([found.bytes for found in validation]),
        tokenizer=vocabulary.name,
        dtype=first.dtype,
        header=first.header,
        train=sides[False],
        validation=sides[True],
    )


def _sides(entries: Sequence[str], validation: Sequence[str]) -> dict[Path, bool]:
    """Every file, and whether it is for validation."""
    named = {path.resolve() for entry in validation for path in find_local(entry)}
    found = [path.resolve() for entry in entries for path in find_local(entry)]
    shards = [path for path in dict.fromkeys(found) if path.suffix == ".bin" or str(path) in entries]
    if not shards:
        raise UserError(f"no token files (.bin) in {', '.join(entries)}; name the files themselves")
    sides = {path: path in named if validation else "val" in path.name for path in shards}
    sides.update((path, True) for path in named)
    if all(sides.values()) or not any(sides.values()):
        missing = "training" if all(sides.values()) else "validation"
        raise UserError(
            f"no {missing} side among {', '.join(path.name for path in [*sides][:3])}; the validation files "
            "are those with 'val' in their names, or those of --validation"
        )
    return sides


def _described(path: Path, is_validation: bool, stated: Stated) -> _File:
    try:
        header = llmc_header(path)
        size = path.stat().st_size
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    if header is not None:
        if stated.dtype not in (None, header[0]):
            raise UserError(f"{path} is of llm.c's format and holds {header[0]}, not {stated.dtype}")
        return _File(path, is_validation, header[0], HEADER_BYTES, header[1])
    if stated.dtype is None:
        raise UserError(
            f"{path} has no header that tells its type of number; say --dtype uint16 (as nanoGPT writes) or "
            "another of " + ", ".join(TOKEN_TYPES)
        )
    width = TOKEN_TYPES[stated.dtype].itemsize
    if size % width or not size:
        raise UserError(f"{path} has {size} bytes, not a number of {stated.dtype} tokens; is it cut short?")
    return _File(path, is_validation, stated.dtype, 0, size // width)


def _vocabulary(file: _File, stated: Stated, tokenizer: Tokenizer | None) -> _Vocabulary:
    if tokenizer is not None:
        known = _Vocabulary(tokenizer.name, tokenizer.vocab_size, tokenizer.separator)
    elif file.header:
        known = _LLMC[file.dtype]
    elif stated.vocab_size is not None:
        known = _Vocabulary("not stated", stated.vocab_size, None)
    else:
        raise UserError(
            f"{file.path} does not tell its vocabulary; say --vocabulary SIZE (50257 for GPT-2) or its "
            "--tokenizer"
        )
    return known._replace(size=stated.vocab_size or known.size)


def _form(file: _File) -> str:
    return f"{file.dtype} {'with llm.c' if file.header else 'without a'} header"


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
