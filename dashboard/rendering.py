"""Templates to HTML. Everything that comes from a user is escaped, in text, in attributes and in JSON."""

import hashlib
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from headcount import __version__
from headcount.dashboard import text
from headcount.dashboard.figures import theme

EVENT_KINDS = (
    "submitted dispatched started evaluated spiked unsent ready requeued settled cancelled imported paused "
    "resumed prioritised extended complete"
)
"""Of the live stream: any of them fetches the page again."""

STATIC = Path(__file__).parent / "static"


@cache
def environment() -> Environment:
    """The templates with the filters that write numbers, settings and times."""
    made = Environment(
        loader=PackageLoader("headcount.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    made.filters |= {
        "number": text.number,
        "signed": text.signed,
        "p_value": text.p_value,
        "compact": text.compact,
        "setting": text.setting,
        "short": text.short,
        "long": text.long,
        "settings": text.settings,
        "moment": _moment,
        "age": lambda time: _moment(time, age=True),
        "urlencode_all": lambda name: quote(name, safe=""),
    }
    made.globals |= {
        "interval": text.interval,
        "plural": text.plural,
        "root": ROOT.get,
        "static": static_address,
        "dark_twins": theme.DARK,
        "plot_config": theme.CONFIG,
        "version": __version__,
        "event_kinds": EVENT_KINDS,
    }
    return made


def render(template: str, **values: Any) -> str:
    """A page from its template."""
    return environment().get_template(template).render(**values)


ROOT: ContextVar[str] = ContextVar("root", default="")
"""The path under which a proxy shows the service, in this request; empty without one."""


def static_address(name: str) -> str:
    """Where a static file is served: the address names its content, so that it can be kept for ever."""
    return f"{ROOT.get()}/static/{name}?v={_content_hash(name)}"


@cache
def _content_hash(name: str) -> str:
    return hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]


def _moment(time: datetime, age: bool = False) -> Markup:
    """A time that the script shows in the viewer's zone, or as an age; in UTC without it."""
    exact = time.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    shown = text.moment(time.astimezone(UTC))
    return Markup('<time datetime="{}"{}>{}</time>').format(exact, Markup(" data-age") if age else "", shown)
