"""What kind of disk a file lies on: SQLite needs one of this machine's own."""

import os
from pathlib import Path

from headcount.trainer.errors import UserError

NETWORK = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "beegfs", "gpfs", "orangefs"),
        *("pvfs2", "glusterfs", "ocfs2", "gfs2", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs"),
        *("fuse.rclone", "fuse.gcsfuse"),
    )
)
"""Types of file systems that several machines may write at a time."""

_MOUNTS = Path("/proc/self/mountinfo")


def refuse_network_disk(file: Path) -> None:
    """Raise `UserError` where `file` would lie on a network disk; says nothing where that is not known.

    SQLite in WAL mode shares memory between its users, which two machines cannot do, and on many network
    disks its locks do not hold: https://www.sqlite.org/wal.html and https://www.sqlite.org/lockingv3.html.
    """
    if not _MOUNTS.exists():
        return
    kind = filesystem_of(file.absolute(), _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape"))
    if kind in NETWORK:
        raise UserError(
            f"the store {file} lies on a network disk ({kind}), where SQLite's locks do not hold and a "
            "second machine would damage it; set HEADCOUNT_DATABASE_URL to a PostgreSQL, or HEADCOUNT_HOME "
            "to a disk of this machine"
        )


def filesystem_of(file: Path, mounts: str) -> str | None:
    """The type of the file system that holds `file`, by the text of Linux's mountinfo (proc(5))."""
    found, deepest = None, -1
    where = os.path.realpath(file)
    for line in mounts.splitlines():
        mount, _, source = line.partition(" - ")
        fields = mount.split(" ")
        if len(fields) < 5 or not source:
            continue
        point = _unescaped(fields[4])
        inside = where == point or where.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= deepest:  # of two at one place, the later one hides the earlier
            found, deepest = source.split(" ")[0], len(point)
    return found


def _unescaped(path: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        path = path.replace(code, character)
    return path
