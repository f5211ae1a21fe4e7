"""Packages of Debian and PyPI as a source of text: fetched by their usual clients, and never installed."""

import email.message
import hashlib
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headcount.trainer.data.files import replace_text
from headcount.trainer.errors import UserError

_WHEELS_FOR_ANY = ("--only-binary=:all:", "--platform=any", "--implementation=py", "--abi=none")
"""The same file on every machine, with nothing compiled in it."""


@dataclass(frozen=True)
class Package:
    """What a manifest says of one package."""

    origin: str
    """`debian` or `pypi`."""
    name: str
    version: str
    licence: str
    file: str
    sha256: str
    """Of the file as it was fetched."""


def fetch(debian: Sequence[str], pypi: Sequence[str], folder: Path) -> dict[str, Path]:
    """The file of each package by its name, fetched unless `folder` has it.

    `debian`: names, of which apt's candidate is taken; `pypi`: names with versions, as in `django==5.2.8`.
    Raises `UserError` with what the client says.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for name in debian:
        found[name] = _one(folder, f"{name}_*.deb", ["apt-get", "download", name])
    for pinned in pypi:
        name, _, version = pinned.partition("==")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *_WHEELS_FOR_ANY, pinned]
        found[name] = _one(folder, f"{name}-{version}-*.whl", pip)
    return found


def _one(folder: Path, pattern: str, command: list[str]) -> Path:
    if not list(folder.glob(pattern)):
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        except OSError as error:
            raise UserError(f"{command[0]} is not on this machine: {error.strerror}") from error
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise UserError(f"{' '.join(command)}: {said[-1] if said else 'failed without a word'}")
    files = sorted(folder.glob(pattern))
    if len(files) != 1:
        raise UserError(f"{folder} holds {len(files)} files named {pattern}; expected one: remove the others")
    return files[0]


def describe(name: str, file: Path, copyrights: Path) -> Package:
    """The package in `file`; the text of its licence is written to `copyrights`."""
    with open(file, "rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    if file.suffix == ".deb":
        version = _dpkg_deb("--field", file, "Version").decode().strip()
        text = _copyright(name, file)
        short = ", ".join(dict.fromkeys(re.findall(r"^License: *(\S.*?) *$", text, re.MULTILINE)))
        origin, licence = "debian", short or "in words of its own"
    else:
        metadata = _metadata(file)
        version, origin, licence = str(metadata["Version"]), "pypi", _licence(metadata)
        text = str(metadata.get("License") or licence)
    replace_text(copyrights / f"{name}.txt", text)
    return Package(origin, name, version, licence, file.name, digest)


def members(file: Path) -> Iterator[tuple[str, bytes]]:
    """Path and content of each regular file in a package, in the order of the paths."""
    if file.suffix == ".deb":
        yield from sorted(_deb_members(file))
        return
    with zipfile.ZipFile(file) as wheel:
        for entry in sorted(wheel.namelist()):
            if not entry.endswith("/"):
                yield entry, wheel.read(entry)


def _deb_members(file: Path) -> Iterator[tuple[str, bytes]]:
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(file)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
            for entry in archive:
                content = archive.extractfile(entry) if entry.isreg() else None
                if content is not None:
                    yield entry.name.removeprefix("./"), content.read()
    if process.returncode:
        raise UserError(f"{file} is not a whole package: dpkg-deb failed; remove it, and it is fetched again")


def _dpkg_deb(option: str, file: Path, *rest: str) -> bytes:
    done = subprocess.run(["dpkg-deb", option, str(file), *rest], capture_output=True)
    if done.returncode:
        raise UserError(f"{file} is not a whole package: {done.stderr.decode().strip()}; remove it")
    return done.stdout


def _copyright(name: str, file: Path) -> str:
    place = f"usr/share/doc/{name}/copyright"
    # read to its end: dpkg-deb complains of a reader that leaves
    return dict(_deb_members(file)).get(place, b"").decode("utf-8", "replace")


def _metadata(file: Path) -> email.message.Message:
    try:
        with zipfile.ZipFile(file) as wheel:
            [entry] = [e for e in wheel.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", e)]
            return email.message_from_bytes(wheel.read(entry))
    except (zipfile.BadZipFile, ValueError) as error:
        raise UserError(f"{file} is not a whole wheel; remove it, and it is fetched again") from error


def _licence(metadata: email.message.Message) -> str:
    """The short name, wherever the metadata has it."""
    if "License-Expression" in metadata:
        return str(metadata["License-Expression"])
    classifiers = [str(c) for c in metadata.get_all("Classifier", []) if str(c).startswith("License ::")]
    if classifiers:
        return ", ".join(c.rpartition(" :: ")[2] for c in classifiers)
    return str(metadata.get("License", "not stated")).strip().splitlines()[0]
