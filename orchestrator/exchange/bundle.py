"""A bundle: one sweep as one file, with its YAML, its jobs and what was measured of them.

A gzipped tar archive that any tool opens. `manifest.json` comes first and holds the SHA-256 and the number of
rows of every table, and the weights that are left out; `sweep.yaml` is the file as submitted;
`tables/*.jsonl` hold one row a line; `files/` the files that figures and tables read, by their keys. Logs
stay where they are. Gzip, since Python has it everywhere: Zstandard is in its library only from 3.14. The
same results always make the same bytes.
"""

import gzip
import hashlib
import io
import json
import os
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from typing import IO, Any

from sqlalchemy import Select, Table, or_, select
from sqlalchemy.orm import Session

from headcount import __version__
from headcount.orchestrator.exchange.job_files import (
    CARRIED,
    FOLDER,
    LeftOut,
    Read,
    check_content,
    fetch,
    initial_weights,
    place,
)
from headcount.orchestrator.exchange.rows import Row, from_line, read_rows, to_line
from headcount.orchestrator.following.overview import find_sweep
from headcount.orchestrator.store.migrations.upgrade import HEAD
from headcount.orchestrator.store.models import RESULT_STATES, Base, Sweep
from headcount.trainer.errors import UserError

SUFFIX = ".tar.gz"
FORMAT = 2
"""Raised when a bundle means something else; an older Headcount then refuses it."""

MANIFEST, YAML = "manifest.json", "sweep.yaml"

TABLES = (
    *("dataset", "sweep", "cell", "job", "sweep_job", "sweep_instrument", "trial"),
    *("attempt", "evaluation", "progress", "measurement", "artifact"),
)
"""In an order in which they can be stored."""

LATER = frozenset({"trial", "sweep_instrument", "artifact"})
"""Tables that bundles of an earlier Headcount do not have."""


@dataclass(frozen=True)
class Written:
    """What a bundle holds."""

    file: Path
    sha256: str
    rows: dict[str, int]
    """By table."""
    left_out: list[LeftOut]


def write_bundle(session: Session, name: str, file: Path, read: Read) -> Written:
    """Write the sweep called `name` to `file`, whole or not at all. Raises `UserError` where it cannot.

    `read` opens an artifact by its key; one that is gone is left out.
    """
    sweep = find_sweep(session, name)
    left_out = _left_out(session, sweep)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / YAML).write_text(sweep.yaml, encoding="utf-8")
        (folder / FOLDER).mkdir()
        rows, keys = {}, []
        for table in TABLES:
            found: Iterable[Row] = read_rows(session, _rows_of(sweep, Base.metadata.tables[table]))
            if table == "artifact":
                found = list(fetch(found, read, folder / FOLDER))
                keys = [row["key"] for row in found]
            elif table == "sweep":  # where its file lies is of this machine
                found = [row | {"folder": None} for row in found]
            elif table == "dataset":
                found = [row | {"manifest": _without_folders(row["manifest"])} for row in found]
            with open(_member(folder, table), "w", encoding="utf-8", newline="\n") as out:
                count = 0
                for row in found:
                    out.write(to_line(row))
                    count += 1
            rows[table] = count
        members = [YAML, *(f"{table}.jsonl" for table in TABLES)]
        manifest = {
            "format": FORMAT,
            "headcount": __version__,
            "schema": HEAD,
            "sweep": sweep.name,
            "version": sweep.version,
            "rows": rows,
            "left_out": [asdict(weights) for weights in left_out],
            "sha256": {member: _sha256(folder / member) for member in members},
        }
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        return Written(file, _pack(folder, [MANIFEST, *members], keys, file), rows, left_out)


def _without_folders(manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest of a registered data set names its shards where this machine has them."""
    parts = {
        part: [shard | {"file": PurePath(shard["file"]).name} for shard in manifest[part]]
        for part in {"train", "validation"} & manifest.keys()
    }
    return manifest | parts


def _rows_of(sweep: Sweep, table: Table) -> Select[Any]:
    """What of a table belongs to the sweep, in the order of its key."""
    tables = Base.metadata.tables
    jobs = _jobs(sweep)
    query = select(*table.c).order_by(*table.primary_key.columns)
    if table.name == "dataset":
        prints = select(tables["job"].c.fingerprint).where(tables["job"].c.id.in_(jobs))
        return query.where(table.c.fingerprint.in_(prints))
    if table.name in ("sweep", "job"):
        return query.where(table.c.id.in_(jobs) if table.name == "job" else table.c.id == sweep.id)
    if "sweep_id" in table.c:
        return query.where(table.c.sweep_id == sweep.id)
    if table.name == "artifact":
        query = query.where(table.c.kind.in_(CARRIED))
    return query.where(table.c.job_id.in_(jobs))


def _jobs(sweep: Sweep) -> Select[Any]:
    """The ids of the sweep's training jobs and of the instruments that looked at them."""
    job, wish = Base.metadata.tables["job"], Base.metadata.tables["sweep_job"]
    own = select(wish.c.job_id).where(wish.c.sweep_id == sweep.id)
    return select(job.c.id).where(or_(job.c.id.in_(own), job.c.parent_id.in_(own)))


def _left_out(session: Session, sweep: Sweep) -> list[LeftOut]:
    """Checkpoints only of jobs that would go on from them."""
    tables = Base.metadata.tables
    artifact, job = tables["artifact"], tables["job"]
    query = (
        select(artifact.c.kind, artifact.c.key, artifact.c.sha256)
        .join(job, job.c.id == artifact.c.job_id)
        .where(artifact.c.job_id.in_(_jobs(sweep)))
        .where(
            or_(
                artifact.c.kind == "model",
                (artifact.c.kind == "checkpoint") & job.c.state.not_in(RESULT_STATES),
            )
        )
        .order_by(artifact.c.key)
    )
    weights = [LeftOut(*row) for row in session.execute(query)]
    configs = session.scalars(select(job.c.config).where(job.c.id.in_(_jobs(sweep))))
    return initial_weights(configs) + weights


def _member(folder: Path, table: str) -> Path:
    return folder / f"{table}.jsonl"


def _sha256(file: Path) -> str:
    with open(file, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _pack(folder: Path, members: list[str], keys: list[str], file: Path) -> str:
    partial = file.with_name(f".{file.name}.partial")
    try:
        with (
            open(partial, "wb") as raw,
            gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            named = [(m if m in (MANIFEST, YAML) else f"tables/{m}", folder / m) for m in members]
            named += [(f"{FOLDER}/{key}", place(folder / FOLDER, key)) for key in keys]
            for name, source in named:
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = source.stat().st_size, 0o644
                with open(source, "rb") as content:
                    archive.addfile(entry, content)
        digest = _sha256(partial)
        os.replace(partial, file)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise UserError(f"cannot write {file}: {error.strerror or error}") from error
    return digest


class Bundle:
    """An opened bundle whose every member has the hash that its manifest states."""

    def __init__(self, file: Path, folder: Path, manifest: dict[str, Any]) -> None:
        self.file = file
        self.sweep: str = manifest["sweep"]
        self.sha256 = _sha256(file)
        self.left_out = [LeftOut(**weights) for weights in manifest.get("left_out", ())]
        self.files = folder / FOLDER
        self._folder = folder
        self._rows: dict[str, int] = manifest["rows"]

    def rows(self, table: str) -> Iterator[Row]:
        """The rows of a table, in the order of its key. Raises `UserError` for what is no row of it."""
        if table in LATER and table not in self._rows:
            return
        count = 0
        with open(_member(self._folder, table), encoding="utf-8") as lines:
            for count, line in enumerate(lines, 1):
                try:
                    yield from_line(Base.metadata.tables[table], line)
                except ValueError as error:
                    raise UserError(f"{self.file}: tables/{table}.jsonl:{count}: {error}") from error
        if count != self._rows[table]:
            raise UserError(f"{self.file}: {table} has {count} rows where {self._rows[table]} are stated")


def unpack(file: Path, folder: Path) -> Bundle:
    """Unpack a bundle into an empty folder, and check it. Raises `UserError` for anything else than a bundle.

    Only members with a known name are written, under names of our own.
    """
    (folder / FOLDER).mkdir()
    try:
        with open(file, "rb") as raw, tarfile.open(fileobj=raw, mode="r:gz") as archive:
            for entry in archive:
                content, target = archive.extractfile(entry), _target(folder, entry.name)
                if content is None or target is None:
                    raise UserError(f"{file} is not a sweep's bundle: it holds {entry.name[:100]!r}")
                with open(target, "wb") as out:
                    _copy(content, out)
    except (EOFError, zlib.error, tarfile.TarError, gzip.BadGzipFile) as error:
        raise UserError(
            f"{file} is torn, or not a sweep's bundle ({error}); 'headcount export SWEEP' makes one"
        ) from error
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror or error}") from error
    bundle = Bundle(file, folder, _checked_manifest(file, folder))
    for row in bundle.rows("artifact"):
        check_content(bundle.files, row)
    return bundle


def _target(folder: Path, name: str) -> Path | None:
    """Where a member is unpacked to; none for one that no bundle has."""
    if name.startswith(f"{FOLDER}/"):
        try:
            return place(folder / FOLDER, name.removeprefix(f"{FOLDER}/"))
        except ValueError:
            return None
    name = name.removeprefix("tables/")
    return folder / name if name in (MANIFEST, YAML, *(f"{table}.jsonl" for table in TABLES)) else None


def _copy(content: IO[bytes], out: IO[bytes]) -> None:
    while block := content.read(io.DEFAULT_BUFFER_SIZE * 16):
        out.write(block)


def _checked_manifest(file: Path, folder: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        form, schema = int(manifest["format"]), str(manifest["schema"])
        hashes, rows = dict(manifest["sha256"]), dict(manifest["rows"])
        str(manifest["sweep"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file} is not a sweep's bundle: it has no {MANIFEST} that we can read") from error
    if form > FORMAT or schema > HEAD:
        raise UserError(
            f"{file} was written by a newer Headcount (format {form}, schema {schema}; this one reads "
            f"{FORMAT} and {HEAD}); upgrade this one"
        )
    had = [table for table in TABLES if table not in LATER or table in rows]
    for member in (YAML, *(f"{table}.jsonl" for table in had)):
        if member not in hashes or member.removesuffix(".jsonl") not in {*rows, YAML}:
            raise UserError(f"{file}: its manifest does not state {member}")
        if not (folder / member).exists() or _sha256(folder / member) != hashes[member]:
            raise UserError(f"{file}: {member} is not what the manifest states; export the sweep again")
    return manifest
