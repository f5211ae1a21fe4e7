"""The documentation: no link leads nowhere, every page is in the site, marked commands do what they say."""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from headcount.__main__ import cli
from headcount.sweeps.file.adaptive import Search
from headcount.sweeps.file.sections import READERS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
OTHERS = [
    ROOT / name for name in ("README.md", "CONTRIBUTING.md", "docker/README.md", "api/published/README.md")
]

_STEP = re.compile(r"^ *<!-- (run|file)(?:: (.+?))? -->\n *```\w*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
"""A block that is run, with what it has to print, or written to a file of that name."""

_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=named)
def test_no_link_leads_nowhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("https://", "http://")):
            continue
        place, _, anchor = target.partition("#")
        file = page.parent / place if place else page
        assert file.exists(), target
        if anchor and file.suffix == ".md":
            titles = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
            assert anchor in slugs, target


def test_the_navigation_names_pages_that_are_there() -> None:
    listed: set[str] = set()

    def walk(node: Any) -> None:
        for part in node if isinstance(node, list) else node.values():
            listed.add(part) if isinstance(part, str) else walk(part)

    walk(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    generated = {name for name in listed if name.startswith("reference/")}
    assert listed - generated <= {str(page.relative_to(DOCS)) for page in PAGES}
    code = "import reference; print(*reference.PAGES)"
    done = subprocess.run([sys.executable, "-c", code], cwd=DOCS, capture_output=True, text=True)
    assert {f"reference/{name}.md" for name in done.stdout.split()} == generated, done.stderr


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    mkdocs = Path(sys.executable).with_name("mkdocs")
    done = subprocess.run(
        [mkdocs, "build", "--strict", "--quiet", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    commands = (tmp_path / "reference/commands/index.html").read_text()
    assert "headcount data publish" in commands
    assert "--older-than" in commands
    assert "routing logit" in (tmp_path / "reference/job_fields/index.html").read_text()
    assert "/api/v1/sweeps/{sweep}/table" in (tmp_path / "reference/rest/index.html").read_text()


def test_every_key_of_the_sweep_file_has_its_row() -> None:
    text = (DOCS / "sweep_file.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == list(READERS)
    of_a_search = [field.name for field in fields(Search)]
    assert re.findall(r"^\| `search\.(\w+)` \|", text, re.MULTILINE) == of_a_search


def commands() -> list[tuple[str, str]]:
    """Every call of `headcount` in a block of any page, without its comment."""
    found = []
    for page in [*PAGES, *OTHERS]:
        for kind, block in _BLOCK.findall(page.read_text(encoding="utf-8")):
            if kind not in ("", "sh"):
                continue
            lines = re.sub(r"\\\n\s*", " ", block)
            for call in re.findall(r"^ *(?:\$ )?(headcount [a-z].*)$", lines, re.MULTILINE):
                plain = re.split(r"\s+#|\s[>|]\s", call)[0].strip()
                if "[" not in plain:  # of a synopsis
                    found.append((named(page), plain))
    return found


def test_the_commands_are_found() -> None:
    assert len(commands()) > 40
    assert {"README.md", "docs/tutorial.md", "docs/data.md"} <= {page for page, _ in commands()}


@pytest.mark.parametrize(("page", "call"), commands())
def test_every_command_on_a_page_can_be_parsed(page: str, call: str) -> None:
    command: click.Command = cli
    rest = shlex.split(call)[1:]
    while isinstance(command, click.Group):
        inner = command.get_command(click.Context(command), rest[0])
        assert inner is not None, rest[0]
        command, rest = inner, rest[1:]
    rest += [option.opts[0] for option in command.params if getattr(option, "prompt", None)]
    try:
        command.make_context(command.name, rest)  # raises for an unknown option or argument
    except click.BadParameter as error:
        if "does not exist" not in error.message:  # of the reader's own files
            raise


def test_marked_commands_do_what_the_pages_say(tmp_path: Path) -> None:
    """In the order of a newcomer: the tutorial first; all in one home."""
    known = {"HEADCOUNT_CONFIG", "HEADCOUNT_DATABASE_URL", "HEADCOUNT_ARTIFACTS", "RAY_ADDRESS"}
    environment = {name: value for name, value in os.environ.items() if name not in known}
    environment["HEADCOUNT_HOME"] = str(tmp_path / "home")
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    work = tmp_path / "work"
    work.mkdir()
    pages = [DOCS / "tutorial.md", *(page for page in PAGES if page.name != "tutorial.md")]
    ran = 0
    for page in pages:
        for kind, words, block in _STEP.findall(page.read_text(encoding="utf-8")):
            if kind == "file":
                (work / words).write_text(block)
                continue
            done = subprocess.run(
                ["sh", "-ec", block], cwd=work, env=environment, capture_output=True, text=True, timeout=120
            )
            assert done.returncode == 0, f"{named(page)}: {block}\n{done.stdout}{done.stderr}"
            assert words in done.stdout, f"{named(page)}: {block}\n{done.stdout}"
            ran += 1
    assert ran == 8


def test_the_page_on_failures_names_tests_that_are_there() -> None:
    cited = re.findall(r"`([\w./]*test_\w+\.py)`(?:: ([^|…;`]+) …)?", (DOCS / "failures.md").read_text())
    assert len(cited) > 20
    for path, words in cited:
        text = (ROOT / "tests" / "orchestrator" / path).read_text()
        name = re.sub(r"\W+", "_", words.strip().lower())
        assert f"def test_{name}" in text, (path, words)


def test_every_thread_on_the_page_on_failures_has_a_test_or_a_reason() -> None:
    text = (DOCS / "failures.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w-]+(?: PR)?#\d+[^|]*) \|[^|]+\| ([^|]+) \| ([^|]*)\|$", text, re.MULTILINE)
    assert len(rows) == 68
    assert len({thread for thread, *_ in rows}) == len(rows)
    for thread, holds, shown in rows:
        assert re.search(r"`[\w./]*test_\w+\.py`|`headcount bench ", shown) or "cannot occur" in holds, thread


def test_every_target_that_a_page_names_is_in_the_makefile() -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = {
        (str(page.relative_to(ROOT)), target)
        for page in [*PAGES, *OTHERS]
        for target in re.findall(r"(?:`|^)make ([a-z][\w-]*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(named) > 10
    assert {(page, target) for page, target in named if target not in targets} == set()
    told = {target for page, target in named if page == "CONTRIBUTING.md"}
    assert set(targets) - told <= {"demo", "serve", "format", "study-page"}
