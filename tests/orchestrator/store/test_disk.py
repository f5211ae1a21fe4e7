"""A store of SQLite's on a network disk is refused with the reason."""

from pathlib import Path

import pytest

from headcount.orchestrator.store import disk, open_store
from headcount.orchestrator.store.disk import filesystem_of
from headcount.trainer.errors import UserError

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 22 0:36 / /home rw,relatime shared:20 - nfs4 server:/export/home rw,vers=4.2
41 40 0:37 / /home/me/local\\040disk rw - xfs /dev/sdb rw
42 22 0:38 / /scratch rw - ext4 /dev/sdc rw
43 22 0:39 / /scratch rw master:3 - lustre mgs:/scratch rw
"""


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("/srv/headcount.db", "ext4"),
        ("/home/me/.headcount/headcount.db", "nfs4"),
        ("/home/me/local disk/headcount.db", "xfs"),
        ("/homely/headcount.db", "ext4"),
        ("/scratch/headcount.db", "lustre"),
    ],
)
def test_the_deepest_and_newest_mount_holds_the_file(file: str, kind: str) -> None:
    assert filesystem_of(Path(file), MOUNTS) == kind


def test_a_store_on_a_network_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        f"22 1 254:0 / / rw - ext4 /dev/vda rw\n40 22 0:36 / {tmp_path} rw - nfs4 server:/home rw\n"
    )
    monkeypatch.setattr(disk, "_MOUNTS", mounts)
    with pytest.raises(
        UserError, match=r"headcount\.db lies on a network disk \(nfs4\), where SQLite's locks"
    ):
        open_store(f"sqlite:///{tmp_path / 'headcount.db'}")
    assert not (tmp_path / "headcount.db").exists()


def test_a_store_on_this_machines_disk_is_opened(tmp_path: Path) -> None:
    open_store(f"sqlite:///{tmp_path / 'headcount.db'}").close()
    assert (tmp_path / "headcount.db").exists()
