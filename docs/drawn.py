"""Writes into a page what commands of Headcount print of a study's archive: `python docs/drawn.py PAGE ...`.

    <!-- archive: ../sweeps/NAME.tar.gz -->                        what is read, beside the page
    <!-- drawn: headcount table NAME --as heads --format md -->
    ...                                                            what the command printed
    <!-- end -->

A figure's file lies where its `--out` says, beside the page. `headline NAME` in place of a command is the
headline of the sweep's page, with the verdict on each line of the curve.
"""

import re
import shlex
import sys
import tempfile
from pathlib import Path

from click.testing import CliRunner

from headcount.__main__ import cli
from headcount.dashboard.pages.sweep import sweep_page
from headcount.orchestrator.settings import CONFIG, VARIABLES
from headcount.orchestrator.store import open_store

_ARCHIVE = re.compile(r"^<!-- archive: (\S+) -->$", re.MULTILINE)
BLOCK = re.compile(r"^<!-- drawn: (.+?) -->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)
"""The command's words, and what stands between the marks."""

_OTHERS = {CONFIG: None} | {n: None for v in VARIABLES.values() for n in (v, f"{v}_FILE")}
"""Of the reader's settings, none counts."""


def draw(page: Path) -> tuple[str, dict[Path, bytes]]:
    """The page's text as it should be, and its figures' files. Raises `UserError` as the commands do."""
    text = page.read_text(encoding="utf-8")
    files: dict[Path, bytes] = {}
    with tempfile.TemporaryDirectory(prefix="headcount-drawn-") as scratch:
        runner = CliRunner(env={**_OTHERS, VARIABLES["home"]: f"{scratch}/home"})

        def run(words: list[str]) -> str:
            lines = runner.invoke(cli, words, catch_exceptions=False).stdout.splitlines()
            return "".join(f"{line.rstrip()}\n" for line in lines)

        def drawn(found: re.Match[str]) -> str:
            words = shlex.split(found[1].removeprefix("headcount "))
            if words[0] == "headline":
                inside = _headline(Path(scratch) / "home", words[1])
            elif words[0] != "figure":
                said = run(words)
                inside = said if "md" in words else f"```\n{said}```\n"
            else:
                place = words.index("--out") + 1
                name, file = words[place], Path(scratch) / Path(words[place]).name
                words[place] = str(file)
                title, _, caption = run(words).removeprefix(f"{file}: ").strip().partition(". ")
                files[page.parent / name] = file.read_bytes()
                inside = f"![{title}]({name})\n\n{caption}\n"
            return f"<!-- drawn: {found[1]} -->\n{inside}<!-- end -->"

        for archive in _ARCHIVE.findall(text):
            run(["import", str(page.parent / archive)])
        return BLOCK.sub(drawn, text), files


def _headline(home: Path, name: str) -> str:
    """As a list: its sentence, those under it, and the shape of each line."""
    with open_store(f"sqlite:///{home / 'headcount.db'}").read() as session:
        page = sweep_page(session, name, {"tab": "heads"})
    said = page.headline
    more = [*said.more, *(shape for shape in page.shapes if shape not in said.more)]
    return "".join(f"- {sentence}\n" for sentence in (f"**{said.lead}**{said.rest}", *more))


def main(pages: list[str]) -> None:
    for page in map(Path, pages):
        text, files = draw(page)
        for file, content in files.items():
            file.write_bytes(content)
        page.write_text(text, encoding="utf-8")
        print(f"{page}: {len(BLOCK.findall(text))} blocks, {len(files)} figures")


if __name__ == "__main__":
    main(sys.argv[1:])
