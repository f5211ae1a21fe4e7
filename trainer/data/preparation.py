"""From text to a prepared data set: duplicates dropped, split by content, written as tokens.

A token is a byte, and a document ends with a NUL byte, which text does not hold. Windows are cut from the
documents laid end to end, so one may span several; attention is not masked between them.

Split: a document goes to validation when its SHA-256 falls in the lowest twentieth, whatever else is there. A
document of 1.25 MiB or more is cut instead: its last twentieth, from a 64 KiB boundary, is validation. Where
that leaves one side empty (few documents), every document is cut so.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headcount.trainer.config import BYTE_VOCABULARY, DataConfig, FieldError
from headcount.trainer.data.dataset import (
    MANIFEST_FILE,
    TRAIN_FILE,
    VALIDATION_FILE,
    Manifest,
    dataset_folder,
    read_manifest,
)
from headcount.trainer.data.sources import Source, find_source, reading
from headcount.trainer.errors import UserError

BLOCK = 64 * 1024
TWENTIETH = 20
SEPARATOR = b"\0"
_FORMAT = "headcount bytes 1"
"""Hashed into every fingerprint and index: another way to split or join is another data set."""


def prepare(config: DataConfig, home: Path) -> Manifest:
    """The data set that `config` names, written under `home` unless it is there already.

    Files that were seen before with the same size and times are not read again.

    Raises `UserError` for text that is missing, not UTF-8 or too short for one window of `config.context`,
    and for a home that cannot be written.
    """
    source = find_source(config)
    index = home / "data" / "index" / f"{_listing_hash(source)}.json"
    manifest = _from_index(index, home)
    if manifest is None:
        with _writing(home):
            manifest = _write(source, home)
            _replace(index, json.dumps({"fingerprint": manifest.fingerprint}))
    _check_enough(manifest, config)
    return manifest


def _write(source: Source, home: Path) -> Manifest:
    """Read, split and write `source`; a data set of the same tokens that is there already is kept."""
    data = home / "data"
    data.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".preparing-", dir=data))
    try:
        manifest = _write_tokens(source, scratch, cut_all=False)
        if not (manifest.train_tokens and manifest.validation_tokens):
            manifest = _write_tokens(source, scratch, cut_all=True)
        (scratch / MANIFEST_FILE).write_text(manifest.to_json(), encoding="utf-8")
        folder = dataset_folder(manifest.fingerprint, home)
        if _is_complete(folder):
            return read_manifest(folder)
        shutil.rmtree(folder, ignore_errors=True)  # damaged
        _sync(*scratch.iterdir())
        try:
            scratch.rename(folder)
        except OSError:
            if not _is_complete(folder):  # else another process was first
                raise
        _sync(data)
        return manifest
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _write_tokens(source: Source, folder: Path, cut_all: bool) -> Manifest:
    seen: set[bytes] = set()
    hashes = (hashlib.sha256(), hashlib.sha256())
    sizes, total = [0, 0], 0
    with open(folder / TRAIN_FILE, "wb") as train, open(folder / VALIDATION_FILE, "wb") as validation:
        for path in source.files:
            document = source.read(path)
            digest = hashlib.sha256(document).digest()
            if not document or digest in seen:
                continue
            seen.add(digest)
            total += len(document)
            for side, part in enumerate(_split(document, digest, cut_all)):
                if part:
                    file = (train, validation)[side]
                    sizes[side] += file.write(part) + file.write(SEPARATOR)
                    hashes[side].update(part)
                    hashes[side].update(SEPARATOR)
    digests = "/".join(h.hexdigest() for h in hashes)
    fingerprint = hashlib.sha256(f"{_FORMAT}/{digests}".encode()).hexdigest()
    return Manifest(
        fingerprint=fingerprint,
        name=source.name,
        vocab_size=BYTE_VOCABULARY,
        train_tokens=sizes[0],
        validation_tokens=sizes[1],
        documents=len(seen),
        bytes=total,
    )


def _split(document: bytes, digest: bytes, cut_all: bool) -> tuple[bytes, bytes]:
    """A document's train and validation part."""
    large = len(document) >= TWENTIETH * BLOCK
    if not (large or cut_all):
        in_validation = int.from_bytes(digest[:8], "big") < 2**64 // TWENTIETH
        return (b"", document) if in_validation else (document, b"")
    cut = len(document) * (TWENTIETH - 1) // TWENTIETH
    if large:
        cut -= cut % BLOCK
    return document[:cut], document[cut:]


def _check_enough(manifest: Manifest, config: DataConfig) -> None:
    for side, tokens in (("train", manifest.train_tokens), ("validation", manifest.validation_tokens)):
        if tokens <= config.context:
            raise FieldError(
                "data.text" if config.text else "data.source",
                f"too little text: {tokens} {side} tokens of {manifest.bytes} bytes, where one window needs "
                f"{config.context + 1}; give more text or a shorter data.context",
            )


def _listing_hash(source: Source) -> str:
    """Of the files' names, sizes and times: what tells that nothing has changed without reading them."""
    listing = hashlib.sha256(f"{_FORMAT}/{source.name}".encode())
    for path in source.files:
        with reading(path):
            stat = path.stat()
        listing.update(f"\0{path}\0{stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}".encode())
    return listing.hexdigest()


def _from_index(index: Path, home: Path) -> Manifest | None:
    try:
        fingerprint = json.loads(index.read_text(encoding="utf-8"))["fingerprint"]
        return read_manifest(dataset_folder(fingerprint, home))
    except (OSError, ValueError, KeyError, UserError):
        return None


def _is_complete(folder: Path) -> bool:
    try:
        read_manifest(folder)
    except UserError:
        return False
    return True


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def _sync(*paths: Path) -> None:
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def _writing(home: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(
            f"cannot write the data set under {home}: {error.strerror}; free some space or set HEADCOUNT_HOME"
        ) from error
