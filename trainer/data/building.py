"""From files to a registered data set, in parallel, and after a kill from where it was."""

import fcntl
import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path

from headcount.trainer.data.assembly import assemble
from headcount.trainer.data.files import writing
from headcount.trainer.data.inputs import InputFile, cut_units, find_inputs
from headcount.trainer.data.manifest import Manifest
from headcount.trainer.data.names import check_new_name, find_named, is_current, set_name
from headcount.trainer.data.placing import place
from headcount.trainer.data.tokenizer import Tokenizer, load_tokenizer
from headcount.trainer.data.workers import Recipe, Report, tokenise
from headcount.trainer.errors import UserError

_FORMAT = "headcount preparation 1"
"""Hashed into what identifies a preparation: parts of another way of cutting or tokenising are not reused."""


def build(
    name: str,
    entries: Sequence[str],
    home: Path,
    recipe: Recipe = Recipe(),  # noqa: B008 (frozen)
    *,
    workers: int = 0,
    replacing: bool = False,
    report: Report = lambda stage, done, total: None,
) -> Manifest:
    """Prepare the files of `entries` and register them as `name`; at once where that was done before.

    `workers`: processes, as many as there are cores where 0. What a killed preparation of the same files had
    tokenised is used again.

    Raises `UserError` for unusable files, names and tokenizers, and for a home that cannot be written.
    """
    tokenizer = load_tokenizer(recipe.tokenizer, recipe.separator)
    files = find_inputs(entries)
    content = _content(files, tokenizer, recipe)
    check_new_name(name, content, home, replacing)
    if is_current(name, content, home):
        with suppress(UserError):  # damaged: prepared again
            if (manifest := find_named(name, home)) is not None:
                return manifest
    units = cut_units(files, recipe.format)
    if not units:
        raise UserError(f"no text in {', '.join(entries)}: the files are empty")
    with writing(home), _working_folder(name, content, home) as folder:

        def joined(parts: Path, cut_all: bool) -> Manifest:
            tokenise(units, parts, recipe, cut_all, workers, report)
            return assemble(parts, len(units), folder / "shards", name, tokenizer, report)

        manifest = joined(folder / f"whole-{len(units)}", cut_all=False)
        if not (manifest.train_tokens and manifest.validation_tokens):
            manifest = joined(folder / f"cut-{len(units)}", cut_all=True)
        if not manifest.bytes:
            raise UserError(f"no text in {', '.join(entries)}: every document is empty")
        if find_inputs(entries) != files:
            raise UserError(f"files of {', '.join(entries)} changed while they were read; run it again")
        manifest = place(folder / "shards", manifest, home)
        set_name(name, manifest.fingerprint, content, home)
    return replace(manifest, name=name)


def _content(files: Sequence[InputFile], tokenizer: Tokenizer, recipe: Recipe) -> str:
    """Of everything that decides the tokens, without reading the files."""
    parts = {
        "way": _FORMAT,
        "tokenizer": [tokenizer.name, tokenizer.separator],
        "column": recipe.column,
        "format": recipe.format,
        "files": [asdict(file) for file in files],
    }
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@contextmanager
def _working_folder(name: str, content: str, home: Path) -> Iterator[Path]:
    """Where parts wait until the data set is whole. It stays when the preparation fails or is killed.

    Raises `UserError` where another process prepares `name` now.
    """
    own = home / "data" / "partial" / name
    own.mkdir(parents=True, exist_ok=True)
    with open(own / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(
                f"{name!r} is being prepared by another process; wait for it, or end it"
            ) from error
        for earlier in own.iterdir():  # of other files or another tokenizer
            if earlier.is_dir() and earlier.name != content:
                shutil.rmtree(earlier)
        folder = own / content
        folder.mkdir(exist_ok=True)
        yield folder
        shutil.rmtree(own)
