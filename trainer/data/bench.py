"""How long a data set takes to prepare, beside nanoGPT's way with Hugging Face's `datasets`.

    headcount bench data FILE... --tokenizer tiktoken:gpt2

nanoGPT's way (its data/openwebtext/prepare.py): load the texts as a table, map them one by one to lists of
tokens in several processes, then join the lists into one file a side. Ours also drops duplicates, splits by
content, and hashes what it writes. Both are timed whole, in turn, in fresh folders on the same disk; the text
must be JSONL or parquet. Medians are told.
"""

import argparse
import importlib
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headcount.trainer.data.building import build
from headcount.trainer.data.inputs import find_inputs
from headcount.trainer.data.tokenizer import Tokenizer, load_tokenizer
from headcount.trainer.data.workers import Recipe
from headcount.trainer.errors import UserError

Times = dict[str, float]
"""Seconds by part."""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser("headcount bench data", description="Time the preparation of a text.")
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--tokenizer", default="tiktoken:gpt2")
    parser.add_argument("--column", default="text")
    parser.add_argument("--workers", type=int, default=2, help="Processes of both.")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(arguments)
    files = [file.address for file in find_inputs(given.files)]
    size = sum(Path(file).stat().st_size for file in files)
    print(f"{size / 1e6:.0f} MB in {len(files)} files, {given.tokenizer}, {given.workers} processes")
    rounds: dict[str, list[Times]] = {"headcount data prepare": [], "nanoGPT's way": []}
    for _ in range(given.rounds):
        for name, run in (("headcount data prepare", _ours), ("nanoGPT's way", _theirs)):
            with tempfile.TemporaryDirectory() as folder:
                rounds[name].append(run(files, given, Path(folder)))
                print(
                    f"{name}: " + ", ".join(f"{p} {s:.2f} s" for p, s in rounds[name][-1].items()), flush=True
                )
    ours, theirs = (
        {part: statistics.median(times[part] for times in told) for part in told[0]}
        for told in rounds.values()
    )
    print(f"ours against the whole of nanoGPT's way: {theirs['whole'] / ours['whole']:.2f} times as fast")
    print(f"ours against its map alone: {theirs['map'] / ours['whole']:.2f} times as fast")


def _ours(files: Sequence[str], given: Any, folder: Path) -> Times:
    began = time.perf_counter()
    build("bench", files, folder, Recipe(given.tokenizer, column=given.column), workers=given.workers)
    return {"whole": time.perf_counter() - began}


def _theirs(files: Sequence[str], given: Any, folder: Path) -> Times:
    try:
        datasets: Any = importlib.import_module("datasets")
    except ImportError as error:
        raise UserError("nanoGPT's way of preparing data needs datasets: pip install datasets") from error
    datasets.disable_progress_bars()
    datasets.disable_caching()
    kind = {".jsonl": "json", ".ndjson": "json", ".parquet": "parquet"}.get(Path(files[0]).suffix)
    if kind is None:
        raise UserError(f"{files[0]}: the comparison needs JSONL or parquet")
    times: Times = {}
    began = at = time.perf_counter()

    def passed(part: str) -> None:
        nonlocal at
        times[part], at = time.perf_counter() - at, time.perf_counter()

    loaded = datasets.load_dataset(
        kind, data_files=list(files), cache_dir=str(folder / "cache"), num_proc=given.workers
    )
    sides = loaded["train"].train_test_split(test_size=0.05, seed=0, shuffle=True)
    passed("load")
    columns = sides["train"].column_names
    function = _tokenise_by(load_tokenizer(given.tokenizer), given.column)
    mapped = sides.map(function, remove_columns=columns, num_proc=given.workers)
    passed("map")
    for side, rows in mapped.items():
        _write(rows, folder / f"{side}.bin")
    passed("write")
    shutil.rmtree(folder / "cache")
    times["whole"] = at - began
    return times


def _tokenise_by(tokenizer: Tokenizer, column: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """One text to the list of its tokens, as nanoGPT does it: tiktoken's own call where it is tiktoken's."""
    encoding, separator = getattr(tokenizer, "_encoding", None), tokenizer.separator

    def tokenise(row: dict[str, Any]) -> dict[str, Any]:
        text = row[column]
        ids = encoding.encode_ordinary(text) if encoding else tokenizer.encode(text.encode()).tolist()
        ids.append(separator)
        return {"ids": ids, "len": len(ids)}

    return tokenise


def _write(rows: Any, path: Path) -> None:
    """Join the lists into one file, in up to 1,024 parts."""
    total = int(np.sum(rows["len"], dtype=np.uint64))
    joined = np.memmap(path, dtype=np.uint16, mode="w+", shape=(total,))
    parts, start = min(1024, len(rows)), 0
    for index in range(parts):
        part = rows.shard(num_shards=parts, index=index, contiguous=True).with_format("numpy")
        tokens = np.concatenate(part["ids"])
        joined[start : start + len(tokens)] = tokens
        start += len(tokens)
    joined.flush()
