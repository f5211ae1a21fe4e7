"""The command `headcount figure`."""

from pathlib import Path

import click


@click.command()
@click.argument("sweep")
@click.option(
    "--view",
    default="",
    metavar="QUERY",
    help="The view, as the page's address has it behind the question mark: 'tab=paired&bars=t'.",
)
@click.option("--name", help="The figure of the view, such as heads-delta.  [default: its first]")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The file to write: .svg, .png, .pdf, .csv, .tex, or .table.tex for its data table.",
)
def figure(sweep: str, view: str, name: str | None, out: Path) -> None:
    """A figure of SWEEP as a file, without a browser."""
    from urllib.parse import parse_qsl

    from headcount.dashboard.exports.files import MEDIA_TYPES, file_of
    from headcount.dashboard.pages.sweep import figure_of, sweep_page
    from headcount.orchestrator.artifacts.folder import open_artifacts
    from headcount.orchestrator.settings import load_settings
    from headcount.orchestrator.store import open_store
    from headcount.trainer.errors import UserError

    form = max((form for form in MEDIA_TYPES if out.name.endswith(f".{form}")), key=len, default=None)
    if form is None:
        raise UserError(f"{out}: a figure is written as {', '.join(f'.{form}' for form in MEDIA_TYPES)}")
    settings = load_settings()
    query = dict(parse_qsl(view.removeprefix("?"), keep_blank_values=True))
    with open_store(settings).read() as session:
        page = sweep_page(session, sweep, query, read=open_artifacts(settings).read)
    found = figure_of(page, name)
    try:
        out.write_bytes(file_of(found, form))
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror}; choose another place with --out") from error
    click.echo(f"{out}: {found.title}. {found.caption}")
