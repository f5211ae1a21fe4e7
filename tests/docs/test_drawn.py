"""What pages show of a study is what the commands that they name print of its archive."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from headcount.sweeps.studies import study_text
from headcount.trainer.errors import UserError

ROOT = Path(__file__).parents[2]
MARK = "<!-- archive: "


def _drawn() -> ModuleType:
    spec = importlib.util.spec_from_file_location("drawn", ROOT / "docs" / "drawn.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


drawn = _drawn()
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if MARK in page.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_what_its_archive_says(page: Path) -> None:
    """Drawn again, not a character of text nor a byte of a figure is another."""
    text, files = drawn.draw(page)
    assert text == page.read_text(encoding="utf-8")
    for file, content in files.items():
        assert file.read_bytes() == content, file.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_words_around_it_have_no_number_of_their_own(page: Path) -> None:
    """A number with decimals from the archive's mark to the last block stands in what was drawn, too."""
    results = "".join(page.read_text(encoding="utf-8").partition(MARK)[2].rpartition("<!-- end -->")[:2])
    shown = " ".join(found[2] for found in drawn.BLOCK.finditer(results))
    told = re.findall(r"\d+\.\d+", drawn.BLOCK.sub("", results))
    assert [number for number in told if number not in shown] == []


def test_a_block_has_what_its_command_prints_and_the_rest_stays(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    block = "Before\n\n<!-- drawn: headcount studies quickstart -->\n{}<!-- end -->\n\nAfter\n"
    page.write_text(block.format("old\n"))
    assert drawn.draw(page) == (block.format(f"```\n{study_text('quickstart')}```\n"), {})
    page.write_text("<!-- drawn: headcount table nothing --format md -->\n<!-- end -->\n")
    with pytest.raises(UserError, match="no sweep is called 'nothing'"):
        drawn.draw(page)
