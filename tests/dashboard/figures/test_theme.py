import itertools
import json
import re

import plotly.graph_objects as go
import pytest

from headcount.dashboard.figures import theme
from headcount.dashboard.rendering import STATIC


def contrast(first: str, second: str) -> float:
    """WCAG 2's contrast of two #rrggbb colours."""

    def luminance(color: str) -> float:
        channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


DARK_PAGE = theme.DARK[theme.SURFACE]


@pytest.mark.parametrize("color", theme.SERIES)
def test_marks_have_a_contrast_of_3_on_both_pages(color: str) -> None:
    assert contrast(color, theme.SURFACE) >= 3
    assert contrast(theme.DARK.get(color, color), DARK_PAGE) >= 3


@pytest.mark.parametrize("color", [theme.INK, theme.MUTED, theme.RUNNING, theme.DIVERGED, theme.FAILED])
def test_text_has_a_contrast_of_4_5_on_both_pages(color: str) -> None:
    assert contrast(color, theme.SURFACE) >= 4.5
    assert contrast(theme.DARK[color], DARK_PAGE) >= 4.5


@pytest.mark.parametrize("fraction", [i / 20 for i in range(21)])
def test_the_ink_of_a_cell_reads_on_its_colour(fraction: float) -> None:
    red, green, blue = (round(float(c)) for c in theme.cell_color(fraction)[4:-1].split(","))
    assert contrast(theme.cell_ink(fraction), f"#{red:02x}{green:02x}{blue:02x}") >= 4.5


def test_no_two_lines_look_alike() -> None:
    assert len(theme.SERIES) == len(theme.SYMBOLS)
    for colors in (theme.SERIES, [theme.DARK.get(c, c) for c in theme.SERIES]):
        assert all(a != b for a, b in itertools.combinations(colors, 2))


def test_the_page_and_its_figures_share_their_colours() -> None:
    style = (STATIC / "headcount.css").read_text()
    tokens = dict(re.findall(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}, #[0-9a-f]{6})\)", style))
    shared = {
        "page": theme.SURFACE,
        "ink": theme.INK,
        "muted": theme.MUTED,
        "hairline": theme.HAIRLINE,
        "running": theme.RUNNING,
        "diverged": theme.DIVERGED,
        "failed": theme.FAILED,
    }
    assert {name: f"{color}, {theme.DARK[color]}" for name, color in shared.items()} == {
        name: tokens[name] for name in shared
    }


def test_the_words_of_a_page_have_a_contrast_of_4_5() -> None:
    style = (STATIC / "headcount.css").read_text()
    tokens = dict(re.findall(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (?:#[0-9a-f]{6})\)", style))
    dark = dict(re.findall(r"--([a-z-]+): light-dark\(#[0-9a-f]{6}, (#[0-9a-f]{6})\)", style))
    words = ("ink", "muted", "accent", "finished", "running", "diverged", "failed")
    for colors in (tokens, dark):
        for word, ground in itertools.product(words, ("page", "surface", "sunken", "accent-soft")):
            assert contrast(colors[word], colors[ground]) >= 4.5, (word, ground)
        assert contrast(colors["outline"], colors["page"]) >= 3


def test_a_dark_figure_exchanges_colours_alone() -> None:
    drawn = theme.figure([go.Scatter(x=[1], y=[2.5], line={"color": theme.SERIES[0]}, name="KV 1")])
    turned = theme.dark(drawn)
    assert turned["data"][0]["line"]["color"] == "#56b4e9"
    assert turned["layout"]["font"]["color"] == theme.DARK[theme.MUTED]
    assert (turned["data"][0]["y"], turned["data"][0]["name"]) == ([2.5], "KV 1")
    assert drawn["data"][0]["line"]["color"] == theme.SERIES[0]


def test_a_figure_carries_no_template_and_keeps_the_viewers_zoom() -> None:
    drawn = theme.figure([go.Scatter(x=[1], y=[None])])
    assert "template" not in drawn["layout"]
    assert drawn["layout"]["uirevision"] == "kept"
    assert len(json.dumps(drawn, allow_nan=False)) < 2000


def test_nothing_is_sent_to_a_cloud() -> None:
    assert theme.CONFIG["showSendToCloud"] is False
    assert theme.CONFIG["plotlyServerURL"] == ""
    assert theme.CONFIG["displaylogo"] is False
    assert theme.CONFIG["displayModeBar"] is False


def test_text_is_drawn_as_it_is() -> None:
    assert theme.plain('<b>a</b> & "b"') == '&lt;b&gt;a&lt;/b&gt; &amp; "b"'
