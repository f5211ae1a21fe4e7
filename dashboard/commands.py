"""The commands `headcount report` and `headcount serve`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

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
    from headcount.orchestrator.artifacts.folder import open_artifacts
    from headcount.orchestrator.settings import load_settings
    from headcount.orchestrator.store import open_store
    from headcount.trainer.errors import UserError

    settings = load_settings()
    with open_store(settings).read() as session:
        html = report(session, sweep, open_artifacts(settings).read)
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
@click.option(
    "--proxy", metavar="ADDRESS", help="A proxy in front, whose X-Forwarded-For and -Proto are believed."
)
@click.option(
    "--root-path", default="", metavar="PATH", help="Where that proxy shows the service, such as /headcount."
)
@click.option(
    "--rate",
    type=click.FloatRange(0),
    default=100.0,
    show_default=True,
    help="Requests a second from one address, on average over 10 s; 0 for any number.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Processes that answer, each with its own --rate and memory of answers.",
)
@click.option("--insecure", is_flag=True, help="Let other machines in although nobody has a token.")
@click.option(
    "--log-format",
    envvar="HEADCOUNT_LOG_FORMAT",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json writes one object for each request; else HEADCOUNT_LOG_FORMAT.",
)
def serve(
    port: int | None,
    host: str,
    allow_host: tuple[str, ...],
    proxy: str | None,
    root_path: str,
    rate: float,
    workers: int,
    insecure: bool,
    log_format: Literal["text", "json"],
) -> None:
    """The dashboard and the REST API at one address, until Ctrl+C."""
    # before numpy is imported: a page has small matrices, over which BLAS threads only spin
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from headcount.api import service
    from headcount.dashboard.pages.routes import create_service
    from headcount.orchestrator.scheduling.logs import set_up_logs
    from headcount.orchestrator.settings import load_settings
    from headcount.orchestrator.store import open_store
    from headcount.orchestrator.store.tokens import usable_tokens

    if log_format == "json":  # else only what goes wrong is told
        set_up_logs(log_format)
    settings = load_settings()
    store = open_store(settings)
    with store.read() as session:
        has_token = usable_tokens(session) > 0
    store.close()

    def make_app(access: "Access") -> "FastAPI":
        return create_service(open_store(settings), settings, access)  # of each worker its own

    service.serve(
        make_app,
        service.Reach(host, allow_host, proxy, root_path, rate, has_token=has_token, insecure=insecure),
        port=service.DEFAULT_PORT if port is None else port,
        workers=workers,
        announce=lambda url: click.echo(f"Headcount is at {url}"),
        warn=lambda words: click.secho(words, fg="red", bold=True, err=True),
    )
