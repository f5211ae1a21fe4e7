"""The commands `headcount table` and `headcount token`."""

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal

import click

from headcount.trainer.errors import UserError

if TYPE_CHECKING:
    from headcount.api.results import NamedTable

Format = Literal["text", "json", "csv", "md", "tex"]


@click.command()
@click.argument("sweep")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "csv", "md", "tex"]),
    default="text",
    show_default=True,
    help="json and csv hold every field in full precision.",
)
@click.option(
    "--digits",
    type=click.IntRange(0, 15),
    default=4,
    show_default=True,
    help="Decimals of text, md and tex.",
)
@click.option(
    "--reference",
    type=click.Choice(["paper"]),
    help="Published figures of the same cells beside ours, compared in sign and order.",
)
@click.option(
    "--as",
    "named",
    metavar="NAME",
    help="Another table: main, heads, grid, lr, best_lr, seeds, tests, shape, width, alignment, throughput, "
    "scaling, errors, routing, probe, downstream or items.",
)
@click.option(
    "--law",
    nargs=2,
    type=float,
    metavar="ALPHA E",
    help="The scaling law L = E + (K / compute)^ALPHA by which 'main' tells gains in compute.",
)
def table(
    sweep: str,
    form: Format,
    digits: int,
    reference: str | None,
    named: str | None,
    law: tuple[float, float] | None,
) -> None:
    """The ablation table of SWEEP: loss over seeds, and the delta to the control paired by seed."""
    from headcount.api.results import (
        ITEMS,
        MEASURED,
        ScalingLaw,
        ablation_table,
        items_table,
        measured_table,
        named_table,
    )
    from headcount.orchestrator.artifacts.folder import open_artifacts
    from headcount.orchestrator.settings import load_settings
    from headcount.orchestrator.store import open_store

    where = load_settings()
    with open_store(where).read() as session:
        if named == ITEMS:
            _print_named(items_table(session, sweep, open_artifacts(where).read), form, digits)
            return
        if named in MEASURED:
            _print_named(measured_table(session, sweep, named), form, digits)
            return
        found = ablation_table(session, sweep, with_reference=reference is not None)
    if named is not None:
        _print_named(named_table(found, named, ScalingLaw(*law) if law else None), form, digits)
    elif form == "text":
        from headcount.api.terminal import print_table

        print_table(found, digits)
    else:
        from headcount.api.formats import render

        click.echo(render(found, form, digits), nl=False)


def _print_named(found: "NamedTable", form: Format, digits: int) -> None:
    if form == "text":
        from headcount.api.columns import readable_named
        from headcount.api.terminal import print_content

        print_content(readable_named(found, digits))
    else:
        from headcount.api.formats import render_named

        click.echo(render_named(found, form, digits), nl=False)


@click.group()
def token() -> None:
    """Who may use the service. Once a token is made, every request needs one."""


@token.command()
@click.argument("name")
@click.option(
    "--scope",
    type=click.Choice(["read", "submit", "admin"]),
    default="read",
    show_default=True,
    help="submit can read; admin can also change the sweeps of others.",
)
@click.option(
    "--expires", metavar="DAYS", help="Such as 90d, 12h or never.", default="90d", show_default=True
)
def create(name: str, scope: Literal["read", "submit", "admin"], expires: str) -> None:
    """Make a token for NAME and print it, once."""
    from headcount.orchestrator.settings import load_settings
    from headcount.orchestrator.store import open_store
    from headcount.orchestrator.store.journal import user_name
    from headcount.orchestrator.store.tokens import create_token

    until = _moment_in(expires)
    with open_store(load_settings()).write() as session:
        text = create_token(session, name, scope, expires=until, by=user_name())
    click.echo(text)
    end = f"until {until:%Y-%m-%d %H:%M} UTC" if until else "for ever"
    click.echo(f"Keep it: it is shown only now. {name} may {scope} with it {end}.", err=True)


@token.command("list")
def list_() -> None:
    """The tokens, those that ended too."""
    from rich.console import Console
    from rich.table import Table
    from sqlalchemy import select

    from headcount.orchestrator.settings import load_settings
    from headcount.orchestrator.store import open_store
    from headcount.orchestrator.store.models import Token

    with open_store(load_settings()).read() as session:
        tokens = session.scalars(select(Token).order_by(Token.id)).all()
    if not tokens:
        click.echo("No token was made yet: whoever reaches the service may do everything.")
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("name", "token", "may", "state", "created", "expires", "last used"):
        table.add_column(heading, no_wrap=True)
    for row in tokens:
        state = "revoked" if row.revoked else "expired" if _is_past(row.expires) else "usable"
        times = (row.created, row.expires, row.last_used)
        table.add_row(row.name, f"{row.start}…", row.scopes[-1], state, *map(_written, times))
    console = Console(highlight=False, markup=False)
    (console if console.is_terminal else Console(width=200, highlight=False, markup=False)).print(table)


@token.command()
@click.argument("name")
def revoke(name: str) -> None:
    """End the token of NAME now, and what is logged in with it."""
    from headcount.orchestrator.settings import load_settings
    from headcount.orchestrator.store import open_store
    from headcount.orchestrator.store.journal import user_name
    from headcount.orchestrator.store.tokens import revoke_token

    with open_store(load_settings()).write() as session:
        revoke_token(session, name, by=user_name())
    click.echo(f"{name}: revoked")


def _moment_in(text: str) -> datetime | None:
    if text == "never":
        return None
    found = re.fullmatch(r"([1-9]\d{0,4})([dh])", text)
    if not found:
        raise UserError(f"--expires {text}: write days or hours such as 90d or 12h, or never")
    number = int(found[1])
    return datetime.now(UTC) + (timedelta(days=number) if found[2] == "d" else timedelta(hours=number))


def _is_past(moment: datetime | None) -> bool:
    return moment is not None and moment < datetime.now(UTC)


def _written(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M}" if moment else "never"
