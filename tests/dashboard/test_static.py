import base64
import hashlib
import importlib.resources

import plotly
import pytest

from headcount.dashboard.rendering import STATIC

PLOTLY_SHA384 = "zc4SwKObGL/W0M3RUI09UPWjlgIZHfbwMgcZO6713mRh78tfUmIQKhzCyE2LIiUg"
"""Of `dist` in npm's plotly.js-cartesian-dist-min 4.1.1."""
INTER_SHA384 = "l0ql7Q1zqvX5klAVRwYjcMVCkCxg5dMTdghsIlC3pYkX6wwEHerh2bP/4yAao3Im"
"""Of npm's @fontsource-variable/inter 5.3.0, Latin, weight axis."""


@pytest.mark.parametrize(
    ("name", "digest"), [("plotly-cartesian.min.js", PLOTLY_SHA384), ("inter.woff2", INTER_SHA384)]
)
def test_vendored_files_are_as_published(name: str, digest: str) -> None:
    content = (STATIC / name).read_bytes()
    assert base64.b64encode(hashlib.sha384(content).digest()).decode() == digest


def test_plotly_in_python_writes_for_the_plotly_in_the_browser() -> None:
    bundled = importlib.resources.files(plotly) / "package_data" / "plotly.min.js"
    with bundled.open(encoding="utf-8") as script:
        version = script.read(40).split("plotly.js ")[1].split()[0]
    head = (STATIC / "plotly-cartesian.min.js").read_text(encoding="utf-8")[:100]
    assert f"plotly.js (cartesian - minified) {version}\n" in head


@pytest.mark.parametrize("name", ["inter.LICENSE.txt", "plotly.LICENSE.txt"])
def test_vendored_files_come_with_their_licence(name: str) -> None:
    assert "Copyright" in (STATIC / name).read_text(encoding="utf-8")
