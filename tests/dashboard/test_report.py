import base64
import hashlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from builders import build_sweep
from click.testing import CliRunner
from sqlalchemy.orm import Session

from headcount.api.results import NotFoundError, ablation_table, jobs
from headcount.dashboard import text
from headcount.dashboard.choice import TABS
from headcount.dashboard.commands import report as command
from headcount.dashboard.report import SCRIPTS, report
from headcount.orchestrator.store import Store, open_store
from headcount.orchestrator.store.models import Sweep


@pytest.fixture(scope="module")
def html(store: Store) -> str:
    with store.read() as session:
        return report(session, "in-flight")


def test_nothing_is_outside_the_file(html: str) -> None:
    written = re.sub(r"(?s)(<script[^>]*>).*?</script>", r"\1", html)
    assert not re.search(r"<[^>]+ src=|url\((?!data:)", written)
    assert set(re.findall(r'href="([^"]+)"', written)) - {"data:,", "#main"} == {
        f"#tab-{tab}" for tab in TABS
    }
    assert "data-events" not in written


def test_its_policy_allows_its_own_scripts_and_style_alone(html: str) -> None:
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', html)
    assert policy
    allowed = set(re.findall(r"sha256-([A-Za-z0-9+/=]+)", policy[1]))
    inside = re.findall(r"<script>(.*?)</script>", html, re.S) + re.findall(
        r"<style[^>]*>(.*?)</style>", html, re.S
    )
    assert len(inside) == len(SCRIPTS) + 1
    assert allowed == {base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in inside}
    assert "connect-src" not in policy[1]
    assert policy[1].startswith("default-src &#39;none&#39;")


def test_it_has_the_numbers_of_the_table(html: str, session: Session) -> None:
    for row in ablation_table(session, "in-flight").treatments:
        assert f'<td class="number">{text.number(row.mean)}</td>' in html
        if row.delta and row.delta.low is not None:
            assert f"{text.signed(row.delta.mean)}</td>" in html
            assert text.interval(row.delta.low, row.delta.high) in html


def test_it_has_every_tab_with_its_views(html: str) -> None:
    """Each measure at each value of what the page lets one filter, where something is drawn."""
    chapters = {part.partition('"')[0]: part for part in html.split('<div class="chapter" id="tab-')[1:]}
    drawn = {tab: re.findall(r'class="plot[^"]*" id="([^"]+)"', part) for tab, part in chapters.items()}

    def each(*ids: str, count: int) -> list[str]:
        return [f"{id}-{n}" if n > 1 else id for id in ids for n in range(1, count + 1)]

    assert drawn == {
        "heads": each("heads-delta", "heads-loss", count=2),
        "grid": each("grid-delta", "grid-loss", count=2),
        "paired": each("paired", count=2),
        "rates": [
            "rates-delta",
            "best-rates",
            "rates-delta-2",
            "best-rates-2",
            "rates-delta-3",
            "best-rates-3",
            *each("rates-loss", count=3),
        ],
        "curves": each("curves-delta", "curves-loss", count=6),
        "depth": ["depth-entropy", "depth-sources", "depth-heads", "depth-head-entropy"],
        "speed": ["speed"],
        "jobs": [],
        "timeline": ["timeline"],
        "plan": ["forecast"],
    }
    words = re.findall(r'<summary>Heads: <span class="usertext">(.*?)</span>', html)
    assert words == ["Delta · LR\u00a01e-3", "Loss · LR\u00a05e-4", "Loss · LR\u00a01e-3"]
    assert re.findall(r"\d+ further views", html) == ["12 further views"]
    for tab, title in {"paired": "pairs-title", "jobs": "jobs-title", "plan": "plan-title"}.items():
        assert f'id="{title}"' in chapters[tab]


def test_it_has_every_job_without_a_link(html: str, session: Session) -> None:
    listed = html.split('id="jobs-title"')[1].split("</table>")[0]
    for job in jobs(session, "in-flight", limit=1000).jobs:
        assert f'<th scope="row"><code>{job.id[:12]}</code></th>' in listed
    assert "<a " not in listed


def test_what_users_write_is_text(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'headcount.db'}")
    with store.write() as session:
        sweep = session.get_one(Sweep, build_sweep(session, heads=(1, 2, 4), kv_heads=(1,), seeds=(0,)))
        sweep.description = sweep.yaml = sweep.owner = "</script><script>alert(1)</script>" + "long" * 1250
    with store.read() as session:
        html = report(session, "head-count")
    assert "<script>alert(1)" not in html
    assert html.count("&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;") == 3


def test_an_unknown_sweep_is_named(session: Session) -> None:
    with pytest.raises(NotFoundError, match="did you mean 'head-count'"):
        report(session, "head-cont")


def test_the_command_writes_the_file(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADCOUNT_HOME", str(tmp_path))
    monkeypatch.setenv("HEADCOUNT_DATABASE_URL", str(store.engine.url))
    out = tmp_path / "out.html"
    result = CliRunner().invoke(command, ["head-count", "--out", str(out)], catch_exceptions=False)
    assert result.output == f"{out}: open it in a browser\n"
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_file_that_cannot_be_written_is_an_error_with_a_way_out(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADCOUNT_HOME", str(tmp_path))
    monkeypatch.setenv("HEADCOUNT_DATABASE_URL", str(store.engine.url))
    result = CliRunner().invoke(command, ["head-count", "--out", str(tmp_path / "no" / "out.html")])
    assert "No such file or directory; choose another place with --out" in str(result.exception)


def test_a_report_needs_no_web_framework() -> None:
    script = (
        "import sys; sys.modules.update(dict.fromkeys(('fastapi', 'starlette', 'uvicorn', 'torch')));"
        "import headcount.dashboard.report, headcount.dashboard.commands"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
