"""A sweep as one file: everything inside it, so that it opens anywhere, without a server or a network."""

import base64
import hashlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from sqlalchemy.orm import Session

from headcount.dashboard.chapters import chapters
from headcount.dashboard.html import sweep_values
from headcount.dashboard.pages.sweep import sweep_page
from headcount.dashboard.rendering import STATIC, render
from headcount.dashboard.tabs.view import nothing_kept

SCRIPTS = ("theme.js", "plotly-cartesian.min.js", "figures.js", "headcount.js")


def report(session: Session, name: str, read: Callable[[str], bytes | None] = nothing_kept) -> str:
    """The report of a sweep as HTML, with every tab and its views.

    `read` opens an artifact by its key: some figures are of what ended jobs left. Raises `NotFoundError`
    for an unknown name.
    """
    page = sweep_page(session, name, {}, whole=True)
    scripts = {script: _read(script) for script in SCRIPTS}
    style = _style()
    return render(
        "report.html",
        live=False,
        chapters=list(chapters(session, page.table, page.statistics, read)),
        scripts=scripts,
        style=style,
        policy=_policy(scripts.values(), style),
        written=datetime.now(UTC),
        **sweep_values(page),
    )


def _policy(scripts: Iterable[str], style: str) -> str:
    """A content security policy for this file: these scripts and this style, and nothing from anywhere."""
    return "; ".join(
        (
            "default-src 'none'",
            "script-src " + " ".join(map(_hash, scripts)),
            f"style-src-elem {_hash(style)}",
            "style-src-attr 'unsafe-inline'",
            "img-src data: blob:",
            "font-src data:",
            "form-action 'none'",
            "base-uri 'none'",
        )
    )


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _read(name: str) -> str:
    text = (STATIC / name).read_text(encoding="utf-8")
    assert "</script" not in text.lower(), f"{name} would end its own element"
    return text


def _style() -> str:
    """Both style sheets in one, with the font inside."""
    font = base64.b64encode((STATIC / "inter.woff2").read_bytes()).decode()
    sheets = "\n".join(
        (STATIC / name).read_text(encoding="utf-8") for name in ("headcount.css", "plotly.css")
    )
    return sheets.replace('url("inter.woff2")', f"url(data:font/woff2;base64,{font})")
