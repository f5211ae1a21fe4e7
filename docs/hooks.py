"""Called by mkdocs: adds the pages that are written from the code, and names files of the repository in place
of linking to them.
"""

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))
from reference import PAGES

_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?!\w+\.md)[^)]*\)")


def on_files(files: Files, config: Any) -> Files:
    for name, write in PAGES.items():
        files.append(File.generated(config, f"reference/{name}.md", content=write()))
    return files


def on_page_markdown(markdown: str, page: Any, **more: Any) -> str:
    return _OUTSIDE.sub(lambda found: found[1], markdown) if "/" not in page.file.src_path else markdown
