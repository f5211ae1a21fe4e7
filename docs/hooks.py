"""Called by mkdocs: adds the pages that are written from the code, and names files of the repository in place
of linking to them.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))
from reference import PAGES

_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?!\w+\.md)[^)]*\)")


def on_config(config: Any) -> Any:
    """A page that the navigation does not name stands at its end."""
    named = set(_names(config.nav))
    pages = (str(page.relative_to(config.docs_dir)) for page in Path(config.docs_dir).rglob("*.md"))
    if rest := sorted(page for page in pages if page not in named):
        config.nav.append({"More": rest})
    return config


def _names(nav: Any) -> Iterator[str]:
    for part in nav if isinstance(nav, list) else nav.values():
        if isinstance(part, str):
            yield part
        else:
            yield from _names(part)


def on_files(files: Files, config: Any) -> Files:
    for name, write in PAGES.items():
        files.append(File.generated(config, f"reference/{name}.md", content=write()))
    return files


def on_page_markdown(markdown: str, page: Any, **more: Any) -> str:
    return _OUTSIDE.sub(lambda found: found[1], markdown) if "/" not in page.file.src_path else markdown
