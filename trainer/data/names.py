"""Registered data sets: a name under the home, and the fingerprint it stands for."""

import json
import re
from dataclasses import replace
from pathlib import Path

from headcount.trainer.data.files import replace_text
from headcount.trainer.data.manifest import Manifest, dataset_folder, read_manifest
from headcount.trainer.data.sources import SOURCES
from headcount.trainer.errors import UserError, nearest

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def registered_names(home: Path) -> tuple[str, ...]:
    """All registered names, sorted."""
    return tuple(sorted(path.stem for path in _folder(home).glob("*.json")))


def find_named(name: str, home: Path) -> Manifest | None:
    """The data set registered as `name`; None where there is none.

    Raises `UserError` where its files are missing or of another size than its manifest states.
    """
    entry = _entry(name, home)
    if entry is None:
        return None
    return replace(read_manifest(dataset_folder(entry["fingerprint"], home)), name=name)


def get_named(name: str, home: Path) -> Manifest:
    """As `find_named`; raises `UserError` with the nearest name where there is none."""
    if name in SOURCES:
        raise UserError(f"{name!r} is no registered data set: its text is read where a sweep is planned")
    manifest = find_named(name, home)
    if manifest is None:
        raise UserError(unknown_name(name, home))
    return manifest


def unknown_name(name: str, home: Path) -> str:
    """What there is instead, and how to make what was asked for."""
    known = (*(s for s in SOURCES if s != "text"), *registered_names(home))
    hint = nearest(name, known)
    listed = f"; registered here: {', '.join(known)}" if hint.startswith("did you mean") else ""
    command = f"headcount data prepare {name or 'NAME'} FILES"
    return f"unknown data set {name!r}; {hint}{listed}; or make it: {command}"


def is_current(name: str, content: str, home: Path) -> bool:
    """Whether `name` was last set to what `content` identifies."""
    entry = _entry(name, home)
    return entry is not None and entry.get("content") == content


def set_name(name: str, fingerprint: str, content: str, home: Path) -> None:
    """Let `name` stand for a data set. `content` identifies what it was made from."""
    entry = json.dumps({"fingerprint": fingerprint, "content": content})
    replace_text(_folder(home) / f"{name}.json", entry)


def check_new_name(name: str, content: str, home: Path, replacing: bool) -> None:
    """Raises `UserError` for a name that cannot be one, or that stands for something else already."""
    if not _NAME.fullmatch(name):
        slug = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:100]
        hint = f"; did you mean {slug!r}?" if slug else ""
        raise UserError(f"{name!r} cannot name a data set; expected letters, digits, - . and _{hint}")
    if name in SOURCES:
        raise UserError(f"{name!r} is a source of its own; choose another name")
    entry = _entry(name, home)
    if entry is not None and entry.get("content") != content and not replacing:
        raise UserError(
            f"{name!r} is registered with other content (fingerprint {entry['fingerprint'][:12]}); choose "
            "another name, or say --replace (its jobs and its files stay)"
        )


def _entry(name: str, home: Path) -> dict[str, str] | None:
    if not _NAME.fullmatch(name):  # a sweep may come from elsewhere, and its name is no path
        return None
    try:
        entry = json.loads((_folder(home) / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return entry if isinstance(entry, dict) and "fingerprint" in entry else None


def _folder(home: Path) -> Path:
    return home / "data" / "names"
