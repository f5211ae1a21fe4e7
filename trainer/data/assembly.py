"""From the parts of all units to the shards of a data set, exact duplicates dropped."""

import shutil
from pathlib import Path

import numpy as np
import numpy.typing as npt

from headcount.trainer.data.manifest import Manifest
from headcount.trainer.data.parts import SIDES, Records, read_part, read_records
from headcount.trainer.data.preparation import BYTES_KIND
from headcount.trainer.data.shards import SHARD_TOKENS, ShardWriter, Tokens, fingerprint_of, token_type
from headcount.trainer.data.tokenizer import Tokenizer
from headcount.trainer.data.workers import Report

_TOKENS_KIND = "headcount tokens 1"


def assemble(
    parts: Path, count: int, folder: Path, name: str, tokenizer: Tokenizer, report: Report
) -> Manifest:
    """Join `count` parts into shards in `folder`, in the order of the units."""
    shutil.rmtree(folder, ignore_errors=True)  # of a preparation that was killed here
    folder.mkdir()
    dtype = token_type(tokenizer.vocab_size)
    firsts = _first_of_each(_keys(parts, count, tokenizer.vocab_size))
    documents, sizes = 0, dict.fromkeys(SIDES, 0)
    with (
        ShardWriter(folder, "train", dtype, SHARD_TOKENS) as train,
        ShardWriter(folder, "validation", dtype, SHARD_TOKENS) as validation,
    ):
        begin = 0
        for number in range(count):
            report("joining", number, count)
            part = read_part(parts, number, tokenizer.vocab_size)
            kept = firsts[begin : begin + len(part.records)]
            begin += len(part.records)
            documents += int((part.records["offset"][kept] == 0).sum())
            for side, writer, tokens in zip(SIDES, (train, validation), part[1:], strict=True):
                sizes[side] += int(part.records[f"{side}_bytes"][kept].sum())
                writer.write(_of(tokens, part.records[side], kept))
    report("joining", count, count)
    kind = BYTES_KIND
    if tokenizer.name != "bytes":
        kind = f"{_TOKENS_KIND}/{tokenizer.name}/{tokenizer.separator}"
    return Manifest(
        fingerprint=fingerprint_of(kind, train.shards, validation.shards),
        name=name,
        vocab_size=tokenizer.vocab_size,
        train_tokens=train.tokens,
        validation_tokens=validation.tokens,
        documents=documents,
        bytes=sum(sizes.values()),
        validation_bytes=sizes["validation"],
        tokenizer=tokenizer.name,
        dtype=dtype,
        train=train.shards,
        validation=validation.shards,
    )


def _of(tokens: Tokens, lengths: npt.NDArray[np.int64], kept: npt.NDArray[np.bool_]) -> Tokens:
    """The tokens of the documents that are kept."""
    return tokens if kept.all() else tokens[np.repeat(kept, lengths)]


def _keys(parts: Path, count: int, vocab_size: int) -> Records:
    """What tells documents apart: their hash, and where a piece of one begins."""
    return np.concatenate(
        [read_records(parts, number, vocab_size)[["digest", "offset"]] for number in range(count)]
    )


def _first_of_each(keys: Records) -> npt.NDArray[np.bool_]:
    """Which documents are the first of their content."""
    columns = (keys["offset"], keys["digest"][:, 1], keys["digest"][:, 0])
    order = np.lexsort(columns)  # stable: equal keys stay in the order of the input
    repeated = np.ones(max(len(keys) - 1, 0), dtype=bool)
    for column in columns:
        repeated &= column[order][1:] == column[order][:-1]
    firsts = np.ones(len(keys), dtype=bool)
    firsts[order[1:]] = ~repeated
    return firsts
