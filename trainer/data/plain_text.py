"""English text out of the files that packages hold: documentation, manuals, dictionaries and source code."""

import gzip
import re
import zlib
from html.parser import HTMLParser
from pathlib import PurePosixPath

_AS_IT_IS = (".txt", ".rst", ".md", ".pod", ".py", ".pyi", ".c", ".h", ".dict")
_MANUAL = re.compile(r"/man/man\d/[^/]+\.\d\w*$")

_MOST_OTHERS = 0.05
"""Share of characters beyond ASCII, above which a text is not taken to be English."""


def plain_text(path: str, content: bytes) -> str | None:
    """The text of the file `path` of a package; None for what is no English, or of no form that we know."""
    path, content = _unpacked(path, content)
    suffix = PurePosixPath(path).suffix
    is_manual = _MANUAL.search(path) is not None
    if not (is_manual or suffix in (*_AS_IT_IS, ".html", ".htm")):
        return None
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if is_manual:
        text = _without_roff(text)
    elif suffix in (".html", ".htm"):
        text = _without_html(text)
    text = re.sub(r"[ \t]+$", "", text.replace("\r\n", "\n"), flags=re.MULTILINE)
    return text if is_english(text) else None


def is_english(text: str) -> bool:
    """Whether nearly all characters are ASCII, and none is a control character that text does not have."""
    others = len(text) - len(text.encode("ascii", "ignore"))
    return others <= _MOST_OTHERS * len(text) and not re.search(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]", text)


def _unpacked(path: str, content: bytes) -> tuple[str, bytes]:
    """Dictionaries (`.dz`) are packed as gzip too, in parts that are found by themselves."""
    stem, dot, packed = path.rpartition(".")
    if dot and packed in ("gz", "dz"):
        try:
            return stem, gzip.decompress(content)
        except (OSError, EOFError, zlib.error):
            return stem, b""
    return path, content


def _without_roff(text: str) -> str:
    """A manual page without comments and requests; what a macro such as `.B` is given stays."""
    text = re.sub(r'^[.\']\s*\\".*\n', "", text, flags=re.MULTILINE)
    text = re.sub(r"^[.'][ \t]*(?:SH|SS|PP|TP|IP|P|LP)\b", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"^[.'][ \t]*\w+[ \t]*", "", text, flags=re.MULTILINE)
    text = re.sub(r"\\f(?:\[\w*\]|\(\w\w|\w)", "", text)
    text = re.sub(r"\\[&%|^/]|\\s[-+]?\d", "", text)
    return text.replace("\\-", "-").replace("\\(aq", "'").replace("\\e", "\\").replace('\\"', '"')


class _Reader(HTMLParser):
    """Gathers what a reader sees. Blocks begin on a line of their own."""

    _UNSEEN = frozenset({"script", "style", "head", "nav"})
    _BLOCKS = frozenset(
        {"p", "div", "li", "tr", "pre", "table", "ul", "ol", "dl", "dt", "dd", "br", "h1", "h2", "h3", "h4"}
    )

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._unseen = 0
        self._pre = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._unseen += tag in self._UNSEEN
        self._pre += tag == "pre"
        if tag in self._BLOCKS:
            self.parts.append("\n" if tag in ("br", "li", "tr", "dt", "dd") else "\n\n")

    def handle_endtag(self, tag: str) -> None:
        self._unseen -= tag in self._UNSEEN and self._unseen > 0
        self._pre -= tag == "pre" and self._pre > 0
        if tag in ("pre", "p", "h1", "h2", "h3", "h4"):
            self.parts.append("\n\n")

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self.parts.append(data if self._pre else re.sub(r"\s+", " ", data))


def _without_html(text: str) -> str:
    reader = _Reader()
    reader.feed(text)
    reader.close()
    lines = (line.rstrip() for line in "".join(reader.parts).splitlines())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
