import ast
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import headcount
from headcount.dashboard.rendering import EVENT_KINDS, environment

ORCHESTRATOR = Path(headcount.__file__).parent / "orchestrator"


def announced_kinds() -> set[str]:
    """Every word that the orchestrator's code gives as the kind of an event."""
    kinds = set()
    for file in ORCHESTRATOR.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or len(node.args) < 3:
                continue
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if called.startswith(("announce_", "tell")) and isinstance(node.args[2], ast.Constant):
                kinds |= {ast.literal_eval(node.args[2])}
    return kinds


def test_a_page_hears_every_event_that_is_announced() -> None:
    heard = set(EVENT_KINDS.split())
    assert announced_kinds() - heard == set(), "add these to EVENT_KINDS, or pages stand still on them"
    assert {"submitted", "dispatched", "evaluated"} <= announced_kinds()
    assert {"settled", "requeued"} <= heard  # end_attempt chooses between these


def test_a_time_is_exact_for_the_script_and_readable_without_it() -> None:
    tokyo = datetime(2026, 3, 1, 21, 0, 5, tzinfo=timezone(timedelta(hours=9)))
    template = environment().from_string("{{ time | moment }} {{ time | age }}")
    assert template.render(time=tokyo) == (
        '<time datetime="2026-03-01T12:00:05Z">2026-03-01 12:00 UTC</time> '
        '<time datetime="2026-03-01T12:00:05Z" data-age>2026-03-01 12:00 UTC</time>'
    )
    assert tokyo.astimezone(UTC).hour == 12


def test_text_ends_neither_an_attribute_nor_a_script() -> None:
    hostile = "\"'</script><b>&"
    template = environment().from_string(
        '<a title="{{ it }}">{{ it }}</a><script>{{ {"it": it} | tojson }}</script>'
    )
    assert template.render(it=hostile) == (
        '<a title="&#34;&#39;&lt;/script&gt;&lt;b&gt;&amp;">&#34;&#39;&lt;/script&gt;&lt;b&gt;&amp;</a>'
        '<script>{"it":"\\"\\u0027\\u003c/script\\u003e\\u003cb\\u003e\\u0026"}</script>'
    )
