"""The commands `headcount report` and `headcount serve`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fastapi import FastAPI

    from headcount.api.security import Access


@click.command()
@click.argument("sweep")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("report.html"),
    show_default=True,
    help="The file to write.",
)
def report(sweep: str, out: Path) -> None:
    """The page of SWEEP as one HTML file that opens anywhere, without a server or a network."""
    from headcount.dashboard.report import report
    from headcount.orchestrator.settings import load_settings
    from headcount.orchestrator.store import open_store
    from headcount.trainer.errors import UserError

    with open_store(load_settings()).read() as session:
        html = report(session, sweep)
    try:
        out.write_text(html, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror}; choose another place with --out") from error
    click.echo(f"{out}: open it in a browser")


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), help="0 takes a free one.  [default: 8321]")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option(
    "--allow-host", multiple=True, help="A name that requests may use for this service; repeatable."
)
@click.option("--insecure", is_flag=True, help="Let other machines read and submit without a password.")
def serve(port: int | None, host: str, allow_host: tuple[str, ...], insecure: bool) -> None:
    """The dashboard and the REST API at one address, until Ctrl+C."""
    from headcount.api import service
    from headcount.dashboard.pages import create_service
    from headcount.orchestrator.settings import load_settings
    from headcount.orchestrator.store import open_store

    settings = load_settings()
    store = open_store(settings)

    def make_app(access: "Access") -> "FastAPI":
        return create_service(store, settings, access)

    service.serve(
        make_app,
        host=host,
        port=service.DEFAULT_PORT if port is None else port,
        allowed_hosts=allow_host,
        insecure=insecure,
        announce=lambda url: click.echo(f"Headcount is at {url}"),
    )
