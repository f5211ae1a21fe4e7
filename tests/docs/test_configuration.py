"""The page of settings and the code name the same variables."""

import re
from pathlib import Path

from headcount.orchestrator.settings import VARIABLES

ROOT = Path(__file__).parents[2]
FOLDERS = ("dashboard", "api", "orchestrator", "sweeps", "trainer", "kernels")
NAMES = re.compile(r"\b(?:HEADCOUNT_[A-Z_]+[A-Z]|RAY_ADDRESS)\b")


def test_every_variable_that_the_code_reads_is_on_the_page_and_no_other() -> None:
    files = [ROOT / "__main__.py", *(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py"))]
    in_code = {name for file in files for name in NAMES.findall(file.read_text(encoding="utf-8"))}
    in_code |= {f"{variable}_FILE" for variable in VARIABLES.values()}
    on_page = set(NAMES.findall((ROOT / "docs/configuration.md").read_text(encoding="utf-8")))
    assert on_page == in_code


def test_the_file_of_settings_is_described_by_its_names() -> None:
    page = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", page, re.MULTILINE)
    assert {setting: variable for variable, setting in rows} == VARIABLES
