"""Folders that tasks are read from count by what they hold."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headcount.trainer.downstream.task_files import task_data_digest, tasks_digest
from headcount.trainer.errors import UserError


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_yaml", ".yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize(
    ("digest", "file"), [(tasks_digest, "heads_yaml"), (task_data_digest, "owner__name__rows")]
)
def test_names_and_contents_count_and_caches_do_not(
    tmp_path: Path, digest: Callable[[Path], str], file: str
) -> None:
    one, two = (write(tmp_path / name, **{file: "depth"}) for name in ("one", "two"))
    before = digest(one)
    assert len(before) == 64
    assert digest(two) == before
    (one / ".cache").mkdir()
    (one / ".cache" / "locks").write_text("x")
    assert digest(one) == before
    write(two, **{file: "width"})
    assert digest(two) != before


def test_folders_without_what_is_asked_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "flat", rows="a", name__rows="b")
    for digest, folder, message in (
        (tasks_digest, "nowhere", "nowhere: no such folder; expected one with the YAML files of tasks"),
        (tasks_digest, "flat", "flat: no YAML file of a task in it"),
        (task_data_digest, "nowhere", "nowhere: no such folder; expected one with data sets by the names"),
        (task_data_digest, "flat", "flat: no data set in it; expected each in a folder OWNER/NAME"),
    ):
        with pytest.raises(UserError, match=message):
            digest(tmp_path / folder)
