"""From the text that a job names to a prepared data set: duplicates dropped, split, written as bytes.

A token is a byte, and a document ends with a NUL byte, which text does not hold. Windows are cut from the
documents laid end to end, so one may span several; attention is not masked between them.
"""

import hashlib
import json
from pathlib import Path

from headcount.trainer.config import BYTE_VOCABULARY, DataConfig, FieldError
from headcount.trainer.data.files import replace_text, writing
from headcount.trainer.data.manifest import Manifest, dataset_folder, read_manifest
from headcount.trainer.data.names import find_named, unknown_name
from headcount.trainer.data.placing import place, scratch_folder
from headcount.trainer.data.shards import ShardWriter, fingerprint_of
from headcount.trainer.data.sources import SOURCES, Source, find_source, reading
from headcount.trainer.data.split import train_part
from headcount.trainer.errors import UserError

SEPARATOR = b"\0"
BYTES_KIND = "headcount bytes 1"
"""Hashed into every fingerprint and index: another way to split or join is another data set."""


def prepare(config: DataConfig, home: Path) -> Manifest:
    """The data set that `config` names: a registered one, or text that is written under `home` unless it is
    there already.

    Files that were seen before with the same size and times are not read again.

    Raises `UserError` for a name that is not known, for text that is missing, not UTF-8 or too short for one
    window of `config.context`, and for a home that cannot be written.
    """
    manifest = _prepare_text(config, home) if config.source in SOURCES else find_named(config.source, home)
    if manifest is None:
        raise FieldError("data.source", unknown_name(config.source, home))
    check_enough(manifest, config)
    return manifest


def _prepare_text(config: DataConfig, home: Path) -> Manifest:
    source = find_source(config)
    index = home / "data" / "index" / f"{_listing_hash(source)}.json"
    manifest = _from_index(index, home)
    if manifest is None:
        with writing(home):
            manifest = _write(source, home)
            replace_text(index, json.dumps({"fingerprint": manifest.fingerprint}))
    return manifest


def _write(source: Source, home: Path) -> Manifest:
    """Read, split and write `source`; a data set of the same tokens that is there already is kept."""
    with scratch_folder(home) as scratch:
        manifest = _write_tokens(source, scratch, cut_all=False)
        if not (manifest.train_tokens and manifest.validation_tokens):
            manifest = _write_tokens(source, scratch, cut_all=True)
        return place(scratch, manifest, home)


def _write_tokens(source: Source, folder: Path, cut_all: bool) -> Manifest:
    seen: set[bytes] = set()
    sizes = [0, 0]
    with ShardWriter(folder, "train") as train, ShardWriter(folder, "validation") as validation:
        for path in source.files:
            document = source.read(path)
            digest = hashlib.sha256(document).digest()
            if not document or digest in seen:
                continue
            seen.add(digest)
            cut = train_part(len(document), digest, cut_all)
            for side, part in enumerate((document[:cut], document[cut:])):
                if part:
                    (train, validation)[side].write(part + SEPARATOR)
                    sizes[side] += len(part)
    return Manifest(
        fingerprint=fingerprint_of(BYTES_KIND, train.shards, validation.shards),
        name=source.name,
        vocab_size=BYTE_VOCABULARY,
        train_tokens=train.tokens,
        validation_tokens=validation.tokens,
        documents=len(seen),
        bytes=sum(sizes),
        validation_bytes=sizes[1],
        train=train.shards,
        validation=validation.shards,
    )


def check_enough(manifest: Manifest, config: DataConfig) -> None:
    """Raises `UserError` for text that is too short for one window of `config.context`."""
    for side, tokens in (("train", manifest.train_tokens), ("validation", manifest.validation_tokens)):
        if tokens <= config.context:
            size = "" if manifest.bytes is None else f" of {manifest.bytes} bytes"
            raise FieldError(
                "data.text" if config.text else "data.source",
                f"too little text: {tokens} {side} tokens{size}, where one window needs "
                f"{config.context + 1}; give more text or a shorter data.context",
            )


def _listing_hash(source: Source) -> str:
    """Of the files' names, sizes and times: what tells that nothing has changed without reading them."""
    listing = hashlib.sha256(f"{BYTES_KIND}/{source.name}".encode())
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
